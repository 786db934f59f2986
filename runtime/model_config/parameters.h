/// Which parameters a model trains, in which order, and in which groups their gradients become
/// ready.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/model/model_spec.h"

namespace zenflow::runtime {

/// How weights and gradients are stored.
enum class ElementType : std::uint8_t { kFloat32, kBfloat16 };

[[nodiscard]] constexpr std::size_t bytes_per_element(ElementType type) {
  return type == ElementType::kFloat32 ? 4 : 2;
}

/// What the model is trained to predict.
struct Task {
  enum class Kind : std::uint8_t { kLanguageModelling, kClassification };
  Kind kind = Kind::kLanguageModelling;
  std::int64_t labels = 0;  ///< of a classification; 1 is a regression, as in Hugging Face

  [[nodiscard]] static Task language_modelling() { return {}; }
  /// Classifies whole sequences, from the last token. Precondition: labels >= 1.
  [[nodiscard]] static Task classification(std::int64_t labels) {
    return {Kind::kClassification, labels};
  }
  [[nodiscard]] bool is_classification() const { return kind == Kind::kClassification; }
};

/// A tensor with Hugging Face's name and layout, row-major: matrices [rows, columns], vectors
/// (biases, norms) [columns] with rows == 1.
struct Parameter {
  std::string name;
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  bool is_matrix = false;
  std::size_t group = 0;

  [[nodiscard]] std::int64_t elements() const { return rows * columns; }
};

/// Consecutive parameters whose gradients become ready together.
struct ParameterGroup {
  std::string name;  ///< "embedding", "layers.0", ..., "head"
  std::size_t first = 0;
  std::size_t count = 0;
};

struct ParameterTable {
  std::vector<Parameter> parameters;
  std::vector<ParameterGroup> groups;  ///< in forward order; the head has the final norm

  [[nodiscard]] std::int64_t elements() const;
  /// The place of the parameter with this name, if there is one.
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const;
};

/// The tensors of `model`, in its order. A classification has score.weight [labels, hidden] in
/// place of the language model's head, whether that is tied or not.
[[nodiscard]] ParameterTable parameter_table(const sim::ModelSpec& model, Task task);

}  // namespace zenflow::runtime
