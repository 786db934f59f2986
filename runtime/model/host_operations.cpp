#include "runtime/model/host_operations.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "kernels/bias/bias.h"
#include "runtime/model/attention.h"
#include "runtime/model/gemm.h"
#include "runtime/model/numerics.h"

namespace zenflow::runtime {
namespace {

using kernels::Range;

/// Products take the containers of either element type.
const float* floats(const float* values) {
  return values;
}
float* floats(float* values) {
  return values;
}
const float* floats(const kernels::WideBf16* values) {
  return reinterpret_cast<const float*>(values);
}
float* floats(kernels::WideBf16* values) {
  return reinterpret_cast<float*>(values);
}

template <class Element>
ConstMatrix matrix(RowsView<const Element> rows, Transposed transposed = Transposed::kNo) {
  return {floats(rows.values), rows.stride, transposed};
}

/// The stored weight as [in, out], or the transpose of that.
ConstMatrix weight_matrix(const LinearShape& shape, const float* weight, bool out_by_in) {
  const bool is_transposed = shape.is_conv1d == out_by_in;
  return {weight, shape.is_conv1d ? shape.out : shape.in,
          is_transposed ? Transposed::kYes : Transposed::kNo};
}

void fill_rows(const Execution& run, const float* bias, std::int64_t rows, std::int64_t columns,
               Matrix y) {
  for_ranges(run.pool, rows, rows_per_block(columns), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r) {
      std::copy_n(bias, columns, y.values + r * y.stride);
    }
  });
}

/// Calls work(range) for ranges of [0, count) on the pool.
template <class Work>
void share(const Execution& run, std::size_t count, std::int64_t per_block, const Work& work) {
  for_ranges(run.pool, static_cast<std::int64_t>(count), per_block,
             [&](std::int64_t first, std::int64_t last) {
               work(Range{as_size(first), as_size(last)});
             });
}
/// The same for rows of so many columns.
template <class Work>
void share_rows(const Execution& run, std::size_t rows, std::size_t columns, const Work& work) {
  share(run, rows, rows_per_block(static_cast<std::int64_t>(columns)), work);
}

constexpr std::int64_t kElementsPerBlock = 8192;
constexpr std::int64_t kColumnsPerBlock = 64;
constexpr std::int64_t kWordsPerBlock = 16;

AttentionShape host_shape(const kernels::AttentionShape& shape) {
  return {static_cast<std::int64_t>(shape.sequences), static_cast<std::int64_t>(shape.length),
          static_cast<std::int64_t>(shape.heads),     static_cast<std::int64_t>(shape.kv_heads),
          static_cast<std::int64_t>(shape.head_dim),  shape.scale,
          static_cast<std::int64_t>(shape.window),    shape.cap};
}

/// Maxima and inverse sums are one array after the other.
SoftmaxStatistics statistics(const kernels::AttentionShape& shape, float* values) {
  return {values, values + shape.tokens() * shape.heads};
}

template <class Element>
class HostOperations final : public Operations<Element> {
 public:
  using Stored = kernels::ParameterOf<Element>;

  explicit HostOperations(ThreadPool& pool)
      : run_{pool,
             std::is_same_v<Element, float> ? ElementType::kFloat32 : ElementType::kBfloat16} {}

  void linear(const LinearPlaces& linear, WeightPointers weights, std::int64_t rows,
              const Element* x, RowsView<Element> y) override {
    const LinearShape& shape = linear.shape;
    const Matrix out = {floats(y.values), y.stride};
    const float* const weight =
        as_float(run_, linear.weight_in<Stored>(weights), shape.in * shape.out, weight_);
    if (linear.bias) {
      fill_rows(run_, as_float(run_, weights[*linear.bias], shape.out, bias_), rows, shape.out,
                out);
    }
    gemm(run_.pool, {rows, shape.out, shape.in}, {floats(x), shape.in},
         weight_matrix(shape, weight, false), out, linear.bias.has_value());
    round_in_place(run_, out.values, rows, shape.out, out.stride);
  }

  void linear_input_gradient(const LinearPlaces& linear, WeightPointers weights, std::int64_t rows,
                             RowsView<const Element> dy, Element* dx, bool adds) override {
    const LinearShape& shape = linear.shape;
    const float* const weight =
        as_float(run_, linear.weight_in<Stored>(weights), shape.in * shape.out, weight_);
    gemm(run_.pool, {rows, shape.in, shape.out}, matrix(dy), weight_matrix(shape, weight, true),
         {floats(dx), shape.in}, adds);
    round_in_place(run_, floats(dx), rows, shape.in, shape.in);
  }

  /// Sums over rows are fp32 in the weight (oneDNN) and double in the bias.
  void linear_weight_gradients(const LinearPlaces& linear, GradientPointers gradients,
                               std::int64_t rows, const Element* x, RowsView<const Element> dy,
                               bool adds, const RowsPart& part) override {
    const LinearShape& shape = linear.shape;
    const std::int64_t elements = shape.in * shape.out;
    const RowsView<const Element> in = {x, shape.in};
    void* const stored = linear.gradient_in<Stored>(gradients);
    float* const weight = gradient_in_float(run_, stored, elements, adds, gradient_);
    if (shape.is_conv1d) {
      gemm(run_.pool, {shape.in, shape.out, rows}, matrix(in, Transposed::kYes), matrix(dy),
           {weight, shape.out}, !part.is_first);
    } else {
      gemm(run_.pool, {shape.out, shape.in, rows}, matrix(dy, Transposed::kYes), matrix(in),
           {weight, shape.in}, !part.is_first);
    }
    if (part.is_last) store_gradient(run_, weight, elements, adds, stored);
    if (!linear.bias) return;
    share(run_, as_size(shape.out), kColumnsPerBlock, [&](Range columns) {
      kernels::bias_gradient_scalar(
          kernels::MatrixView<Element>{dy.values, as_size(rows), as_size(shape.out),
                                       as_size(dy.stride)},
          adds, static_cast<Stored*>(gradients[*linear.bias]), columns);
    });
  }

  void norm(const kernels::NormShape& shape, const kernels::NormForward<Element>& values) override {
    share_rows(run_, shape.rows, shape.columns,
               [&](Range rows) { kernels::norm_forward_scalar(shape, values, rows); });
  }

  void norm_gradient(const kernels::NormShape& shape,
                     const kernels::NormBackward<Element>& values) override {
    share_rows(run_, shape.rows, shape.columns,
               [&](Range rows) { kernels::norm_backward_scalar(shape, values, rows); });
  }

  void norm_weight_gradients(const kernels::NormShape& shape,
                             const kernels::NormWeightGradients<Element>& values) override {
    share(run_, shape.columns, kColumnsPerBlock,
          [&](Range columns) { kernels::norm_weight_gradients_scalar(shape, values, columns); });
  }

  void rotary(const kernels::RotaryShape& shape, kernels::RotaryAngles angles,
              kernels::RotaryDirection direction, Element* x) override {
    share_rows(run_, shape.rows, shape.heads * shape.head_dim,
               [&](Range rows) { kernels::rotary_scalar(shape, angles, direction, x, rows); });
  }

  void attention(const kernels::AttentionShape& shape,
                 const kernels::AttentionForward<Element>& v) override {
    attention_forward(run_, host_shape(shape), floats(v.qkv), floats(v.out),
                      statistics(shape, v.lse), attention_);
  }

  void attention_gradient(const kernels::AttentionShape& shape,
                          const kernels::AttentionBackward<Element>& v) override {
    attention_backward(run_, host_shape(shape), floats(v.qkv), floats(v.out), v.lse,
                       v.lse + shape.tokens() * shape.heads, floats(v.d_out), floats(v.d_qkv),
                       attention_);
  }

  void activation(kernels::ActivationFunction f, std::size_t n, const Element* x,
                  Element* y) override {
    share(run_, n, kElementsPerBlock,
          [&](Range part) { kernels::activation_scalar(f, n, x, y, part); });
  }

  void activation_gradient(kernels::ActivationFunction f, std::size_t n,
                           const kernels::ActivationGradient<Element>& values) override {
    share(run_, n, kElementsPerBlock,
          [&](Range part) { kernels::activation_gradient_scalar(f, n, values, part); });
  }

  void gated(kernels::ActivationFunction f, std::size_t n, const Element* gate, const Element* up,
             Element* y) override {
    share(run_, n, kElementsPerBlock,
          [&](Range part) { kernels::gated_scalar(f, n, gate, up, y, part); });
  }

  void gated_gradient(kernels::ActivationFunction f, std::size_t n,
                      const kernels::GatedGradient<Element>& values) override {
    share(run_, n, kElementsPerBlock,
          [&](Range part) { kernels::gated_gradient_scalar(f, n, values, part); });
  }

  void embedding(const BatchView& batch, std::size_t columns, float scale, const Stored* words,
                 const Stored* positions, Element* y) override {
    const kernels::TokenRows rows = {batch.at.ids, as_size(batch.tokens()), as_size(batch.length),
                                     scale};
    share_rows(run_, rows.tokens, columns, [&](Range tokens) {
      kernels::embedding_scalar(rows, columns, words, positions, y, tokens);
    });
  }

  void word_gradient(const BatchView& batch, std::size_t columns, float scale, const Element* dy,
                     std::size_t rows, bool adds, Stored* gradient) override {
    kernels::WordOrderView order = batch.order();
    order.scale = scale;
    if (!adds) std::fill_n(gradient, rows * columns, Stored{});
    share(run_, batch.words, kWordsPerBlock, [&](Range words) {
      kernels::present_word_gradient_scalar(order, columns, dy, adds, gradient, words);
    });
  }

  void position_gradient(const BatchView& batch, std::size_t columns, const Element* dy,
                         std::size_t first, std::size_t places, bool adds,
                         Stored* gradient) override {
    share(run_, places, kWordsPerBlock, [&](Range range) {
      kernels::position_gradient_scalar(as_size(batch.tokens()), as_size(batch.length), columns, dy,
                                        first, places, adds, gradient, range);
    });
  }

  void gather_last(const BatchView& batch, std::size_t columns, const Element* from,
                   Element* to) override {
    for (std::size_t s = 0; s < as_size(batch.sequences); ++s) {
      std::copy_n(from + as_size(batch.at.last[s]) * columns, columns, to + s * columns);
    }
  }

  void scatter_last(const BatchView& batch, std::size_t columns, const Element* from,
                    Element* to) override {
    std::fill_n(to, as_size(batch.tokens()) * columns, Element{});
    for (std::size_t s = 0; s < as_size(batch.sequences); ++s) {
      std::copy_n(from + s * columns, columns, to + as_size(batch.at.last[s]) * columns);
    }
  }

  /// Losses are kernels::RowStatistics.
  void loss(const LossRows<Element>& all, LossPass pass) override {
    const std::size_t classes = as_size(all.outputs);
    const auto row = [&](std::size_t r) {
      Element* const logits = all.logits.values + r * as_size(all.logits.stride);
      auto& loss = static_cast<kernels::RowStatistics*>(all.losses)[r];
      if (all.values != nullptr) {
        const double error =
            static_cast<double>(kernels::to_float(*logits)) - static_cast<double>(all.values[r]);
        loss.loss = error * error;
        loss.correct = false;
        if (pass == LossPass::kLoss) return;
        *logits = kernels::as_element<Element>(static_cast<float>(error * (2.0 * all.scale)));
        return;
      }
      if (pass != LossPass::kGradientAgain) {
        loss = kernels::row_statistics_scalar(logits, classes, all.classes[r], all.cap);
      }
      if (pass == LossPass::kLoss) return;
      kernels::row_gradient_scalar(logits, classes, all.classes[r], loss.lse,
                                   static_cast<float>(all.scale), all.cap);
    };
    share_rows(run_, as_size(all.rows), classes, [&](Range rows) {
      for (std::size_t r = rows.first; r < rows.last; ++r) row(r);
    });
  }

  void sum_losses(const void* losses, std::size_t rows, kernels::LossSum* sum) override {
    const auto* const all = static_cast<const kernels::RowStatistics*>(losses);
    *sum = {0.0, 0};
    for (std::size_t r = 0; r < rows; ++r) {
      sum->loss += all[r].loss;
      sum->correct += all[r].correct ? 1 : 0;
    }
  }

 private:
  Execution run_;
  AttentionScratch attention_;
  // In bf16 as large as the largest weight; in fp32 empty, but for gradients that are added.
  std::vector<float> weight_;
  std::vector<float> bias_;
  std::vector<float> gradient_;
};

}  // namespace

template <class Element>
std::unique_ptr<Operations<Element>> host_operations(ThreadPool& pool) {
  return std::make_unique<HostOperations<Element>>(pool);
}
template std::unique_ptr<Operations<float>> host_operations(ThreadPool&);
template std::unique_ptr<Operations<kernels::WideBf16>> host_operations(ThreadPool&);

OperationMemory host_operation_memory() {
  return {.row_loss_bytes = sizeof(kernels::RowStatistics),
          .logit_bytes = std::int64_t{1} << 26,
          .attention_statistics = 2,
          .halves_share = false};
}

}  // namespace zenflow::runtime
