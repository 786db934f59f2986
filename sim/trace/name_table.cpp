#include "sim/trace/name_table.h"

#include <functional>

namespace zenflow::sim {

std::size_t NameTable::slot_of(std::string_view text, std::size_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = hash & mask;
  while (slots_[slot] != kNoName && texts_[slots_[slot]] != text) slot = (slot + 1) & mask;
  return slot;
}

void NameTable::grow() {
  constexpr std::size_t kFirst = 64;
  slots_.assign(slots_.empty() ? kFirst : 2 * slots_.size(), kNoName);
  for (NameId id = 1; id < texts_.size(); ++id) {
    slots_[slot_of(texts_[id], std::hash<std::string_view>{}(texts_[id]))] = id;
  }
}

NameId NameTable::intern(std::string_view text) {
  if (text.empty()) return kNoName;
  if (3 * (texts_.size() + 1) > 2 * slots_.size()) grow();
  const std::size_t slot = slot_of(text, std::hash<std::string_view>{}(text));
  if (slots_[slot] == kNoName) {
    slots_[slot] = static_cast<NameId>(texts_.size());
    texts_.emplace_back(text);
  }
  return slots_[slot];
}

}  // namespace zenflow::sim
