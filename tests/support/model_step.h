/// A model with weights of its own, and one step of it: what the offload engine does, without one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "kernels/bf16/bf16.h"
#include "runtime/model/initialize.h"
#include "runtime/model/transformer.h"
#include "sim/config/document.h"

namespace zenflow::testing {

using runtime::ElementType;

/// Tensors of a table, stored as an element type, each in an allocation of its own, so that
/// AddressSanitizer sees an access beyond it.
class TensorStore {
 public:
  TensorStore(const runtime::ParameterTable& table, ElementType type) : type_(type) {
    for (const runtime::Parameter& parameter : table.parameters) {
      const auto count = static_cast<std::size_t>(parameter.elements());
      bytes_.emplace_back(count * runtime::bytes_per_element(type), std::byte{0x7F});
      pointers_.push_back(bytes_.back().data());
    }
    for (void* pointer : pointers_) constant_.push_back(pointer);
  }
  [[nodiscard]] const std::vector<void*>& pointers() const { return pointers_; }
  [[nodiscard]] const std::vector<const void*>& constant() const { return constant_; }
  [[nodiscard]] const std::vector<std::vector<std::byte>>& bytes() const { return bytes_; }

  [[nodiscard]] std::size_t size(std::size_t i) const {
    return bytes_[i].size() / runtime::bytes_per_element(type_);
  }
  [[nodiscard]] float get(std::size_t i, std::size_t element) const {
    if (type_ == ElementType::kFloat32) return static_cast<const float*>(constant_[i])[element];
    return kernels::to_float(static_cast<const kernels::Bf16*>(constant_[i])[element]);
  }
  void set(std::size_t i, std::size_t element, float value) {
    if (type_ == ElementType::kFloat32) {
      static_cast<float*>(pointers_[i])[element] = value;
    } else {
      static_cast<kernels::Bf16*>(pointers_[i])[element] = kernels::round_to_bf16(value);
    }
  }
  [[nodiscard]] std::vector<float> values(std::size_t i) const {
    std::vector<float> out;
    for (std::size_t e = 0; e < size(i); ++e) out.push_back(get(i, e));
    return out;
  }

 private:
  ElementType type_;
  std::vector<std::vector<std::byte>> bytes_;
  std::vector<void*> pointers_;
  std::vector<const void*> constant_;
};

/// A model, its weights and the gradients of the last step.
struct ModelUnderTest {
  ModelUnderTest(const runtime::TransformerConfig& config, std::int64_t sequences,
                 std::int64_t length, ElementType type = ElementType::kFloat32,
                 std::size_t threads = 1, bool checkpoints_activations = false)
      : model(config, {sequences, length, type, checkpoints_activations}, threads),
        weights(model.parameters(), type),
        gradients(model.parameters(), type) {}

  void initialize(ElementType type, std::uint64_t seed = 1) {
    ThreadPool pool(1);
    for (std::size_t i = 0; i < model.parameters().parameters.size(); ++i) {
      runtime::initialize(model.config(), model.parameters().parameters[i], seed, type,
                          weights.pointers()[i], pool);
    }
  }

  /// Forward and backward; the loss.
  double step(const runtime::Batch& batch, runtime::MicroBatch part = {}) {
    model.begin(batch, part);
    const std::size_t groups = model.parameters().groups.size();
    for (std::size_t group = 0; group < groups; ++group) model.forward(group, weights.constant());
    for (std::size_t group = groups; group-- > 0;) {
      model.backward(group, weights.constant(), gradients.pointers());
    }
    return model.loss();
  }

  runtime::HostTransformer model;
  TensorStore weights;
  TensorStore gradients;
};

/// Configuration as JSON text.
inline runtime::TransformerConfig model_config(const std::string& json, runtime::Task task = {}) {
  return runtime::read_transformer_config(parse_json(json, "config.json"), "tiny", task);
}

}  // namespace zenflow::testing
