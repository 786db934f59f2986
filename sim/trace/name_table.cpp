#include "sim/trace/name_table.h"

#include <functional>

namespace zenflow::sim {

NameId NameTable::intern(std::string_view text) {
  if (text.empty()) return kNoName;
  const auto hash_of = [](std::string_view one) { return std::hash<std::string_view>{}(one); };
  numbers_.make_room(texts_.size(), [&](NameId id) { return hash_of(texts_[id]); });
  NameId& id = numbers_.place(hash_of(text), [&](NameId one) { return texts_[one] == text; });
  if (id == kNoName) {
    id = static_cast<NameId>(texts_.size());
    texts_.emplace_back(text);
  }
  return id;
}

}  // namespace zenflow::sim
