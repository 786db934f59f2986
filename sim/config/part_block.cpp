#include "sim/config/part_block.h"

#include <utility>

#include <fmt/format.h>

#include "sim/config/number_reader.h"

namespace zenflow::sim {

void put_entry(Node& map, std::string_view key, Node value) {
  const Location at = value.at;
  map.entries.push_back({std::string(key), at, std::move(value)});
}

Node number_node(const std::string& value, const std::string& source, const Location& at) {
  Node number = map_node(at);
  Node plain = text_node(value, at);
  plain.quoted = false;
  put_entry(number, "value", std::move(plain));
  put_entry(number, "source", text_node(source, at));
  return number;
}

std::string stated_in(const Node& node) {
  const std::string_view origin = override_source(node);
  return origin.empty() ? "stated in " + node.at.text() : std::string(origin);
}

Node stated_number(const ValueReader& value) {
  if (!value.node().is_scalar()) return value.node();
  Node number = map_node(value.node().at);
  put_entry(number, "value", value.node());
  put_entry(number, "source", text_node(stated_in(value.node()), value.node().at));
  return number;
}

std::string rate_text(double bytes_per_second) {
  constexpr double kGiga = 1e9;
  return fmt::format("{:.4g} GB/s", bytes_per_second / kGiga);
}

PartBlock::PartBlock(MapReader from) : from_(std::move(from)), to_(map_node(from_.at())) {}

bool PartBlock::states(std::string_view key) const {
  const Node* value = from_.node().find(key);
  return value != nullptr && value->kind != Node::Kind::kNull;
}

void PartBlock::number(std::string_view key, const std::string& value, const std::string& source) {
  number(key, number_node(value, source, from_.at()));
}

void PartBlock::number(std::string_view key, Node otherwise) {
  const auto own = from_.optional(key);
  raw(key, own ? stated_number(*own) : std::move(otherwise));
}

void PartBlock::stated(std::string_view key) {
  raw(key, stated_number(from_.require(key)));
}

void PartBlock::optional(std::string_view key) {
  if (const auto own = from_.optional(key)) raw(key, stated_number(*own));
}

void PartBlock::text(std::string_view key, const std::string& otherwise) {
  const auto own = from_.optional(key);
  raw(key, text_node(own ? own->string() : otherwise, from_.at()));
}

ValueReader PartBlock::value(std::string_view key) const {
  const std::string path = fmt::format("{}.{}", from_.path(), key);
  const Node* number = to_.find(key);
  const Node* value = number->find("value");
  if (value == nullptr) fail_at(number->at, path, "value: required, but missing");
  return {*value, path};
}

double PartBlock::bandwidth(std::string_view key) const {
  return value(key).bandwidth().value();
}

Node PartBlock::take() {
  from_.reject_unknown_keys();
  return std::move(to_);
}

}  // namespace zenflow::sim
