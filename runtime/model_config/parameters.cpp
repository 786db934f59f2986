#include "runtime/model_config/parameters.h"

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

}  // namespace

std::int64_t ParameterTable::elements() const {
  std::int64_t sum = 0;
  for (const Parameter& parameter : parameters) sum += parameter.elements();
  return sum;
}

std::optional<std::size_t> ParameterTable::find(std::string_view name) const {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].name == name) return i;
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
