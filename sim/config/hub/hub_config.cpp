#include "sim/config/hub/hub_config.h"

#include <fmt/format.h>

namespace zenflow::sim::hub {

std::int64_t HubConfig::size(Names names, std::int64_t limit, std::int64_t otherwise) {
  for (const std::string_view name : names) {
    if (const auto value = map_.optional(name)) return value->integer(1, limit);
  }
  if (nested_ && otherwise > 0) return otherwise;
  return map_.require(*names.begin()).integer(1, limit);
}

std::int64_t HubConfig::size_or(Names names, std::int64_t otherwise, std::int64_t limit) {
  for (const std::string_view name : names) {
    if (const auto value = map_.optional(name)) return value->integer(0, limit);
  }
  return otherwise;
}

std::int64_t HubConfig::same_size(Names names, std::int64_t limit) {
  const std::int64_t first = size(names, limit);
  for (const std::string_view name : names) {
    const auto value = map_.optional(name);
    if (!value || value->integer(1, limit) == first) continue;
    value->fail(fmt::format("expected {}, as another name of it says", first));
  }
  return first;
}

std::int64_t HubConfig::positive_or(Names names, std::int64_t otherwise, std::int64_t limit) {
  for (const std::string_view name : names) {
    if (const auto value = map_.optional(name)) return value->integer(1, limit);
  }
  return otherwise;
}

bool HubConfig::is(const Switch& key) {
  return key.key.empty() ? key.otherwise : map_.boolean_or(key.key, key.otherwise);
}

bool HubConfig::holds(const Switch& key) {
  return is({key.key, key.otherwise && map_.node().find(key.key) == nullptr});
}

std::string HubConfig::text_or(std::string_view key, std::string_view otherwise) {
  return map_.string_or(key, otherwise);
}

double HubConfig::number_or(std::string_view key, double otherwise) {
  return map_.number_or(key, otherwise, -1e12, 1e12);
}

std::optional<std::vector<std::string>> HubConfig::texts(std::string_view key) {
  const auto list = map_.optional(key);
  if (!list) return std::nullopt;
  std::vector<std::string> texts;
  for (const ValueReader& item : list->items()) texts.push_back(item.string());
  return texts;
}

std::optional<std::vector<std::int64_t>> HubConfig::numbers(std::string_view key) {
  const auto list = map_.optional(key);
  if (!list) return std::nullopt;
  std::vector<std::int64_t> numbers;
  for (const ValueReader& item : list->items()) numbers.push_back(item.integer(0, kMaxPositions));
  return numbers;
}

bool HubConfig::has(std::string_view key) const {
  const Node* node = map_.node().find(key);
  return node != nullptr && node->kind != Node::Kind::kNull;
}

bool HubConfig::is_unless_null(const Switch& key) {
  return (map_.node().find(key.key) == nullptr || has(key.key)) && is(key);
}

HubConfig HubConfig::below(std::string_view key, Head head) {
  return {map_.require_map(key), head, true};
}

HubConfig HubConfig::below_or_empty(std::string_view key, Head head) {
  static const Node kEmpty = map_node({});
  if (has(key)) return below(key, head);
  return {MapReader(kEmpty, std::string(key)), head, true};
}

std::int64_t HubConfig::labels() {
  if (labels_ > 0) return labels_;
  constexpr std::int64_t kMostLabels = 1 << 20;
  if (const auto count = map_.optional("num_labels")) return count->integer(1, kMostLabels);
  if (const auto names = map_.optional_map("id2label")) {
    if (!names->keys().empty()) return std::ssize(names->keys());
  }
  return 2;
}

std::int64_t HubConfig::answer_labels() {
  const std::int64_t count = labels();
  if (count != 2) {
    fail(has("num_labels") ? "num_labels" : "id2label",
         fmt::format("expected 2 labels of answers, a start and an end, found {}", count));
  }
  return count;
}

void HubConfig::check_class(std::string_view classes, Names suffixes,
                            std::string_view other_classes) {
  const auto architectures = map_.optional("architectures");
  if (!architectures) return;
  const std::vector<ValueReader> items = architectures->items();
  if (items.empty()) return;
  const std::string name = items.front().string();
  std::string known;
  for (const std::string_view prefix : {classes, other_classes}) {
    if (prefix.empty()) continue;
    for (const std::string_view suffix : suffixes) {
      const std::string one = fmt::format("{}{}", prefix, suffix);
      if (name == one) return;
      known += (known.empty() ? "" : ", ") + one;
    }
  }
  items.front().fail(
      fmt::format("no class of this model_type that is known: \"{}\"; known: {}", name, known));
}

std::int64_t head_dim_of(const HubConfig& config, std::string_view hidden_key, std::int64_t hidden,
                         std::string_view heads_key, std::int64_t heads) {
  if (hidden % heads != 0) {
    config.fail(hidden_key,
                fmt::format("expected a multiple of {} ({}), found {}", heads_key, heads, hidden));
  }
  if (hidden / heads > kMaxHeadDim) {
    config.fail(heads_key, fmt::format("expected heads of at most {} columns, found {}",
                                       kMaxHeadDim, hidden / heads));
  }
  return hidden / heads;
}

void check_kv_heads(const HubConfig& config, std::string_view key, std::int64_t kv_heads,
                    std::string_view heads_key, std::int64_t heads) {
  if (heads % kv_heads == 0) return;
  config.fail(key,
              fmt::format("expected a divisor of {} ({}), found {}", heads_key, heads, kv_heads));
}

}  // namespace zenflow::sim::hub
