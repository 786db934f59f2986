#include "runtime/model_config/parameters.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace zenflow::runtime {
namespace {

class TableBuilder {
 public:
  void begin_group(std::string name) {
    table_.groups.push_back({std::move(name), table_.parameters.size(), 0});
  }
  void add(std::string name, const sim::Tensor& tensor) {
    table_.parameters.push_back({std::move(name), tensor.rows(), tensor.columns(),
                                 tensor.is_matrix(), table_.groups.size() - 1});
    ++table_.groups.back().count;
  }
  void add(const sim::Tensor& tensor) { add(tensor.name, tensor); }
  [[nodiscard]] ParameterTable take() { return std::move(table_); }

 private:
  ParameterTable table_;
};

/// The first whole number between two dots: "12" of "model.layers.12.mlp.up_proj.weight".
std::string_view layer_of(std::string_view name) {
  while (!name.empty()) {
    const std::string_view part = name.substr(0, name.find('.'));
    const bool is_number =
        !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    if (is_number) return part;
    name.remove_prefix(std::min(name.size(), part.size() + 1));
  }
  return {};
}

/// The group of the layer with the number in the name; nullptr: there is none.
const ParameterGroup* layer_group(const ParameterTable& table, std::string_view name) {
  const std::string_view number = layer_of(name);
  std::size_t layer = 0;
  const auto read = std::from_chars(number.data(), number.data() + number.size(), layer);
  if (number.empty() || read.ec != std::errc() || layer + 1 >= table.groups.size()) return nullptr;
  const ParameterGroup& group = table.groups[layer + 1];
  const bool is_layer = group.name.starts_with("layers.") && group.name.substr(7) == number;
  return is_layer ? &group : nullptr;
}

std::optional<std::size_t> find_within(const ParameterTable& table, std::size_t first,
                                       std::size_t count, std::string_view name) {
  for (std::size_t i = first; i < first + count; ++i) {
    if (table.parameters[i].name == name) return i;
  }
  return std::nullopt;
}

}  // namespace

std::int64_t ParameterTable::elements() const {
  std::int64_t sum = 0;
  for (const Parameter& parameter : parameters) sum += parameter.elements();
  return sum;
}

std::optional<std::size_t> ParameterTable::find(std::string_view name) const {
  // A name with a layer's number is looked for there: thousands of layers ask for all of theirs.
  const ParameterGroup* const layer = layer_group(*this, name);
  if (layer == nullptr) return find_within(*this, 0, parameters.size(), name);
  for (const ParameterGroup* group : {layer, &groups.front(), &groups.back()}) {
    if (const auto found = find_within(*this, group->first, group->count, name)) return found;
  }
  return std::nullopt;
}

ParameterTable parameter_table(const sim::ModelSpec& model, Task task) {
  TableBuilder table;
  table.begin_group("embedding");
  for (const sim::Tensor& tensor : model.embedding.tensors) table.add(tensor);
  for (std::int64_t layer = 0; layer < model.layers(); ++layer) {
    table.begin_group(fmt::format("layers.{}", layer));
    for (const sim::Tensor& tensor : model.layer(layer).tensors) {
      table.add(fmt::format(fmt::runtime(tensor.name), layer), tensor);
    }
  }
  table.begin_group("head");
  for (const sim::Tensor& tensor : model.head.tensors) {
    if (task.is_classification() && tensor.name == "lm_head.weight") continue;
    table.add(tensor);
  }
  if (task.is_classification()) {
    table.add({"score.weight", {task.labels, model.hidden}});
  }
  return table.take();
}

}  // namespace zenflow::runtime
