/// A small network for tests of the offload engine: two tanh layers and a linear one, squared
/// error, in plain loops. Weights and gradients may be fp32 or bfloat16; all arithmetic is fp32.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cast/cast.h"
#include "runtime/offload/trainable.h"
#include "tests/support/test_device.h"

namespace zenflow::runtime::testing {

/// Layer l: weights [widths[l+1], widths[l]] and a bias; one group a layer.
class ToyModel final : public TrainableModel {
 public:
  /// `tied`: the outputs also read the first elements of the first layer's weights, so that its
  /// gradient has two sources, as a language model's embedding has. For fp32 only.
  ToyModel(std::vector<std::int64_t> widths, ElementType type, std::uint64_t seed,
           bool tied = false)
      : widths_(std::move(widths)), type_(type), seed_(seed), tied_(tied) {
    for (std::size_t l = 0; l + 1 < widths_.size(); ++l) {
      const std::string name = "layers." + std::to_string(l);
      table_.groups.push_back({name, table_.parameters.size(), 2});
      table_.parameters.push_back({name + ".weight", widths_[l + 1], widths_[l], true, l});
      table_.parameters.push_back({name + ".bias", 1, widths_[l + 1], false, l});
    }
    activations_.resize(widths_.size());
  }

  [[nodiscard]] const ParameterTable& parameters() const override { return table_; }
  [[nodiscard]] bool shared(std::size_t parameter) const override {
    return tied_ && parameter == 0;
  }

  [[nodiscard]] std::vector<std::vector<float>> initial_weights() const {
    std::vector<std::vector<float>> weights;
    std::uint64_t index = 0;
    for (const Parameter& parameter : table_.parameters) {
      weights.emplace_back();
      for (std::int64_t i = 0; i < parameter.elements(); ++i) {
        const float value = 0.4F * uniform(~seed_ + ++index);
        weights.back().push_back(kernels::to_float(kernels::round_to_bf16(value)));
      }
    }
    return weights;
  }

  /// The next passes are over batches of this step.
  void set_step(std::int64_t step) { step_ = step; }
  void begin_micro_batch(std::size_t index) override { micro_batch_ = index; }
  /// The gradient of this parameter's first element will be a NaN in this step.
  void poison(std::int64_t step, std::size_t parameter) {
    poisoned_step_ = step;
    poisoned_ = parameter;
  }

  void forward(std::size_t group, std::span<const void* const> weights, Stream& compute) override {
    run_on(compute, Operation::kForward,
           [this, group, w = weights[2 * group], b = weights[2 * group + 1], first = weights[0],
            part = Part{step_, micro_batch_}] { forward_now(group, w, b, first, part); });
  }
  void backward(std::size_t group, std::span<const void* const> weights,
                std::span<void* const> gradients, Stream& compute) override {
    run_on(compute, Operation::kBackward,
           [this, group, w = weights[2 * group], dw = gradients[2 * group],
            db = gradients[2 * group + 1], first = gradients[0],
            part = Part{step_, micro_batch_}] { backward_now(group, w, dw, db, first, part); });
  }
  [[nodiscard]] double loss() const override { return loss_; }

  /// All passes of a step at once; gradients as fp32 values. For programs without a device.
  std::vector<std::vector<float>> gradients(const std::vector<std::vector<float>>& weights,
                                            std::int64_t step, std::int64_t micro_batches = 1) {
    std::vector<std::vector<float>> result;
    for (const auto& w : weights) result.emplace_back(w.size());
    for (std::int64_t i = 0; i < micro_batches; ++i) {
      add_gradients(weights, {step, static_cast<std::size_t>(i)}, result);
    }
    return result;
  }

 private:
  /// Which batch a pass is over.
  struct Part {
    std::int64_t step;
    std::size_t micro_batch;
    [[nodiscard]] bool adds() const { return micro_batch > 0; }
  };

  void add_gradients(const std::vector<std::vector<float>>& weights, Part part,
                     std::vector<std::vector<float>>& result) {
    const ElementType type = std::exchange(type_, ElementType::kFloat32);
    for (std::size_t g = 0; g < table_.groups.size(); ++g) {
      forward_now(g, weights[2 * g].data(), weights[2 * g + 1].data(), weights[0].data(), part);
    }
    for (std::size_t g = table_.groups.size(); g-- > 0;) {
      backward_now(g, weights[2 * g].data(), result[2 * g].data(), result[2 * g + 1].data(),
                   result[0].data(), part);
    }
    type_ = type;
    if (type_ != ElementType::kBfloat16) return;
    for (auto& values : result) {
      for (float& value : values) value = kernels::to_float(kernels::round_to_bf16(value));
    }
  }

  static constexpr std::size_t kSamples = 5;
  static constexpr float kTied = 0.25F;

  /// In (-1, 1), by counter.
  static float uniform(std::uint64_t x) {
    x += 0x9E3779B97F4A7C15U;
    x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
    x ^= x >> 31U;
    return static_cast<float>(static_cast<std::int64_t>(x >> 40U) - (1 << 23)) * 0x1p-23F;
  }
  [[nodiscard]] float read(const void* values, std::size_t i) const {
    return type_ == ElementType::kFloat32
               ? static_cast<const float*>(values)[i]
               : kernels::to_float(static_cast<const kernels::Bf16*>(values)[i]);
  }
  void write(void* values, std::size_t i, float value) const {
    if (type_ == ElementType::kFloat32) {
      static_cast<float*>(values)[i] = value;
    } else {
      static_cast<kernels::Bf16*>(values)[i] = kernels::round_to_bf16(value);
    }
  }
  void forward_now(std::size_t layer, const void* w, const void* b, const void* first, Part part) {
    const auto in = static_cast<std::size_t>(widths_[layer]);
    const auto out = static_cast<std::size_t>(widths_[layer + 1]);
    const bool last = layer + 2 == widths_.size();
    if (layer == 0) {
      activations_[0].resize(kSamples * in);
      for (std::size_t i = 0; i < activations_[0].size(); ++i) {
        activations_[0][i] =
            uniform(seed_ * 7919 + static_cast<std::uint64_t>(part.step) * 104'729 +
                    part.micro_batch * 15'485'863 + i);
      }
    }
    activations_[layer + 1].assign(kSamples * out, 0);
    for (std::size_t n = 0; n < kSamples; ++n) {
      for (std::size_t o = 0; o < out; ++o) {
        float sum = read(b, o);
        if (tied_ && last) sum += kTied * read(first, o);
        for (std::size_t i = 0; i < in; ++i) {
          sum += read(w, o * in + i) * activations_[layer][n * in + i];
        }
        activations_[layer + 1][n * out + o] = last ? sum : std::tanh(sum);
      }
    }
    if (!last) return;
    if (!part.adds()) loss_ = 0;
    error_.assign(kSamples * out, 0);
    for (std::size_t i = 0; i < error_.size(); ++i) {
      const float target = std::sin(3 * activations_[0][i % activations_[0].size()]);
      error_[i] = activations_[layer + 1][i] - target;
      loss_ += static_cast<double>(error_[i]) * error_[i];
    }
  }

  void backward_now(std::size_t layer, const void* w, void* dw, void* db, void* first, Part part) {
    const auto store = [&](void* values, std::size_t i, float value, bool adds) {
      write(values, i, adds ? read(values, i) + value : value);
    };
    const auto in = static_cast<std::size_t>(widths_[layer]);
    const auto out = static_cast<std::size_t>(widths_[layer + 1]);
    if (layer + 2 != widths_.size()) {
      for (std::size_t i = 0; i < error_.size(); ++i) {
        const float y = activations_[layer + 1][i];
        error_[i] *= 1 - y * y;
      }
    }
    if (tied_ && layer + 2 == widths_.size()) {  // backward comes here first
      const auto elements = static_cast<std::size_t>(table_.parameters[0].elements());
      for (std::size_t i = 0; i < elements; ++i) {
        float sum = 0;
        for (std::size_t n = 0; i < out && n < kSamples; ++n) sum += error_[n * out + i];
        store(first, i, kTied * sum, part.adds());
      }
    }
    std::vector<float> below(kSamples * in, 0);
    for (std::size_t o = 0; o < out; ++o) {
      float bias = 0;
      for (std::size_t n = 0; n < kSamples; ++n) bias += error_[n * out + o];
      store(db, o, bias, part.adds());
      for (std::size_t i = 0; i < in; ++i) {
        float sum = 0;
        for (std::size_t n = 0; n < kSamples; ++n) {
          sum += error_[n * out + o] * activations_[layer][n * in + i];
          below[n * in + i] += error_[n * out + o] * read(w, o * in + i);
        }
        store(dw, o * in + i, sum, part.adds() || (tied_ && layer == 0));
      }
    }
    error_ = std::move(below);
    if (part.step == poisoned_step_ && poisoned_ / 2 == layer) {
      write(poisoned_ % 2 == 0 ? dw : db, 0, std::numeric_limits<float>::quiet_NaN());
    }
  }

  std::vector<std::int64_t> widths_;
  ElementType type_;
  std::uint64_t seed_;
  bool tied_;
  ParameterTable table_;
  std::int64_t step_ = 0;
  std::size_t micro_batch_ = 0;
  std::int64_t poisoned_step_ = -1;
  std::size_t poisoned_ = 0;
  // The compute stream's thread alone, while a pass runs.
  std::vector<std::vector<float>> activations_;
  std::vector<float> error_;
  double loss_ = 0;
};

}  // namespace zenflow::runtime::testing
