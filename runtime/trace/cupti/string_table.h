/// Names, each kept once.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/trace/cupti/activity.h"

namespace zenflow::runtime {

/// Numbers strings in the order of their first use. For one thread.
class StringTable {
 public:
  StringId id(std::string_view text) {
    if (text.empty()) return 0;
    if (const auto known = ids_.find(text); known != ids_.end()) return known->second;
    const auto fresh = static_cast<StringId>(strings_.size());
    strings_.emplace_back(text);
    ids_.emplace(text, fresh);
    return fresh;
  }
  /// By id; the first is the empty string.
  [[nodiscard]] const std::vector<std::string>& strings() const { return strings_; }

 private:
  struct Hash {  // finds a string_view without a std::string being made of it
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  std::vector<std::string> strings_{std::string()};
  // Only looked up in, never iterated over.
  std::unordered_map<std::string, StringId, Hash, std::equal_to<>> ids_;
};

}  // namespace zenflow::runtime
