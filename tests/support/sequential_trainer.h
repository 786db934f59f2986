/// The rule that the offload engine must follow, as one plain loop: no threads, no device, no
/// buffers. Every parameter is [rows, columns]; each column is selected or deferred, and carries
/// fp32 weights, moments and its number of updates whichever it is.
///
/// What staleness means here: `working` holds the weights that gradients are computed with. An
/// update changes `master` at once, but with overlap its deferred columns reach `working` only at
/// the end of the next window.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/bf16/bf16.h"
#include "runtime/model_config/parameters.h"

namespace zenflow::runtime::testing {

struct SequentialRule {
  double topk_ratio = 0;
  std::int64_t update_interval = 1;
  std::int64_t select_interval = 0;
  std::int64_t warm_up = 0;
  bool overlap = false;
  float learning_rate = 1e-2F, beta1 = 0.9F, beta2 = 0.999F, epsilon = 1e-8F, weight_decay = 0.1F;
  bool decays_vectors = false;
  /// An update from the mean of S gradients stands for S steps: 0 no, 1 with the rate times
  /// sqrt(S), 2 times S, 3 times S^0.75.
  int scaling = 0;
  bool bf16 = false;
  bool l1 = false;  ///< columns are ranked by the sum of absolute values
  /// Columns of all matrices compete, for the first time at the end of the first window.
  bool global = false;
  /// S of the window after window number `window`; asked as an engine's interval policy is.
  std::function<std::int64_t(std::int64_t window)> next_interval{};
  /// The share of columns wanted from then on, asked after the above.
  std::function<double(std::int64_t window)> next_ratio{};
};

class SequentialTrainer {
 public:
  using Tensors = std::vector<std::vector<float>>;

  SequentialTrainer(const ParameterTable& table, SequentialRule rule, const Tensors& weights)
      : rule_(std::move(rule)), master_(weights), working_(weights) {
    window_steps_ = rule_.warm_up > 0 ? 1 : rule_.update_interval;
    for (const Parameter& p : table.parameters) {
      shapes_.push_back({p.is_matrix ? p.rows : p.columns, p.is_matrix ? p.columns : 1, 0});
      decays_.push_back(p.is_matrix || rule_.decays_vectors);
      const auto n = static_cast<std::size_t>(p.elements());
      m_.emplace_back(n);
      v_.emplace_back(n);
      sums_.emplace_back(n);
      const auto columns = static_cast<std::size_t>(shapes_.back().columns);
      updates_.emplace_back(columns, 0U);
      selected_.emplace_back(columns, false);
      waiting_.emplace_back(columns, false);
    }
    select_share(rule_.topk_ratio);
  }

  [[nodiscard]] const Tensors& working() const { return working_; }
  [[nodiscard]] const Tensors& master() const { return master_; }
  [[nodiscard]] const std::vector<std::vector<bool>>& selected() const { return selected_; }

  /// `scale`: of the step's gradients, from clipping by their global norm.
  void step(const Tensors& gradients, float scale) {
    const bool warm = step_ < rule_.warm_up;
    const bool overlap = rule_.overlap && !warm;
    const std::int64_t inside = step_ - window_first_;
    if (step_ == rule_.warm_up) {
      for (std::size_t p = 0; p < shapes_.size(); ++p) selected_[p] = largest(p, gradients[p]);
      last_selection_ = step_;
    }
    for (std::size_t p = 0; p < shapes_.size(); ++p) {
      for_each(p, [&](std::size_t i, std::size_t column) {
        if (selected_[p][column]) return;
        sums_[p][i] =
            inside == 0 ? scale * gradients[p][i] : std::fma(scale, gradients[p][i], sums_[p][i]);
      });
      update(p, selected_[p], gradients[p], scale);
      publish(p, selected_[p]);
    }
    if (inside + 1 == window_steps_) {
      const bool due =
          rule_.select_interval > 0 && step_ + 1 - last_selection_ >= rule_.select_interval;
      const bool first_of_all = rule_.global && !selected_from_all_;
      const bool select = !warm && (due || first_of_all || wanted_ratio_ != rule_.topk_ratio);
      if (!warm) select_share(wanted_ratio_);
      Flags of_all;
      if (select && rule_.global) of_all = largest_of_all(gradients);
      selected_from_all_ = selected_from_all_ || (select && rule_.global);
      const float mean = 1.0F / static_cast<float>(window_steps_);
      for (std::size_t p = 0; p < shapes_.size(); ++p)
        end_window(p, gradients[p], mean, window_steps_, overlap, select,
                   of_all.empty() ? nullptr : &of_all[p]);
      if (select) last_selection_ = step_ + 1;
      start_window(step_ + 1, !warm);
    }
    ++step_;
  }

  /// Everything takes effect; an unfinished window ends with the steps it has.
  void settle() {
    const std::int64_t steps = step_ - window_first_;
    for (std::size_t p = 0; p < shapes_.size(); ++p) {
      publish(p, waiting_[p]);
      waiting_[p].assign(waiting_[p].size(), false);
      if (steps == 0) continue;
      std::vector<bool> deferred(selected_[p].size());
      for (std::size_t c = 0; c < deferred.size(); ++c) deferred[c] = !selected_[p][c];
      update(p, deferred, sums_[p], 1.0F / static_cast<float>(steps), steps);
      publish(p, deferred);
    }
    if (steps > 0) start_window(step_, false);
  }

 private:
  struct Shape {
    std::int64_t rows, columns, selected;

    [[nodiscard]] bool selectable() const { return selected > 0 && selected < columns; }
  };
  using Flags = std::vector<std::vector<bool>>;

  void select_share(double k) {
    rule_.topk_ratio = wanted_ratio_ = k;
    for (Shape& shape : shapes_) {
      const auto share = static_cast<std::int64_t>(k * static_cast<double>(shape.columns) + 1e-9);
      shape.selected = k > 0 ? std::max<std::int64_t>(1, share) : 0;
    }
  }

  void start_window(std::int64_t first, bool may_adapt) {
    if (may_adapt && windows_ > 0) {
      if (rule_.next_interval) rule_.update_interval = rule_.next_interval(windows_);
      if (rule_.next_ratio) wanted_ratio_ = rule_.next_ratio(windows_);
    }
    window_first_ = first;
    window_steps_ = first < rule_.warm_up ? 1 : rule_.update_interval;
    ++windows_;
  }

  void end_window(std::size_t p, const std::vector<float>& gradient, float mean,
                  std::int64_t window, bool overlap, bool select, const std::vector<bool>* of_all) {
    const std::vector<bool> before = selected_[p];
    const std::vector<bool> after = of_all != nullptr ? *of_all
                                    : select          ? largest(p, gradient)
                                                      : before;
    std::vector<bool> deferred(before.size());
    if (!overlap) {
      for (std::size_t c = 0; c < before.size(); ++c) deferred[c] = !before[c];
      update(p, deferred, sums_[p], mean, window);
      publish(p, deferred);
      selected_[p] = after;
      return;
    }
    publish(p, waiting_[p]);  // the update of the window before
    // Columns that enter take their sums along; columns that leave have none.
    std::vector<bool> enters(before.size());
    for (std::size_t c = 0; c < before.size(); ++c) {
      enters[c] = after[c] && !before[c];
      deferred[c] = !after[c] && !before[c];
      waiting_[p][c] = !after[c];
    }
    update(p, enters, sums_[p], mean, window);
    publish(p, enters);
    update(p, deferred, sums_[p], mean, window);
    selected_[p] = after;
  }

  template <class Visit>
  void for_each(std::size_t p, Visit visit) const {
    const auto columns = static_cast<std::size_t>(shapes_[p].columns);
    for (std::size_t i = 0; i < master_[p].size(); ++i) visit(i, i % columns);
  }

  /// Sums of squares, or of absolute values, by column.
  [[nodiscard]] std::vector<float> sizes(std::size_t p, const std::vector<float>& gradient) const {
    std::vector<float> squares(static_cast<std::size_t>(shapes_[p].columns), 0);
    for_each(p, [&](std::size_t i, std::size_t c) {
      const float square = rule_.l1 ? std::abs(gradient[i]) : gradient[i] * gradient[i];
      squares[c] = squares[c] + square;
    });
    return squares;
  }

  /// A column at a time: the one that holds most for an element and still fits, until none does.
  [[nodiscard]] Flags largest_of_all(const Tensors& gradients) const {
    Flags result = selected_;
    std::int64_t room = 0;
    std::vector<std::vector<double>> value(shapes_.size());
    std::vector<std::vector<bool>> taken(shapes_.size());  // or never to be
    const auto best = [&](std::size_t p, bool smallest) {
      std::size_t found = value[p].size();
      for (std::size_t c = 0; c < value[p].size(); ++c) {
        if (taken[p][c]) continue;
        const bool ahead =
            found == value[p].size() || value[p][c] > value[p][found] ||
            (value[p][c] == value[p][found] && selected_[p][c] && !selected_[p][found]);
        const bool behind =
            found == value[p].size() || value[p][c] < value[p][found] ||
            (value[p][c] == value[p][found] && !(selected_[p][c] && !selected_[p][found]));
        if (smallest ? behind : ahead) found = c;
      }
      return found;
    };
    for (std::size_t p = 0; p < shapes_.size(); ++p) {
      if (!shapes_[p].selectable()) continue;
      const auto rows = static_cast<double>(shapes_[p].rows);
      for (const float size : sizes(p, gradients[p])) {
        float norm = rule_.l1 ? size : std::sqrt(size);
        if (rule_.bf16) norm = kernels::to_float(kernels::round_to_bf16(norm));
        value[p].push_back(static_cast<double>(norm) / (rule_.l1 ? rows : std::sqrt(rows)));
      }
      taken[p].assign(value[p].size(), false);
      result[p].assign(value[p].size(), false);
      room += shapes_[p].rows * (shapes_[p].selected - 1);
      const std::size_t largest = best(p, false);
      result[p][largest] = taken[p][largest] = true;
      taken[p][best(p, true)] = true;
    }
    for (;;) {
      std::size_t of = shapes_.size();
      std::size_t column = 0;
      for (std::size_t p = 0; p < shapes_.size(); ++p) {
        if (value[p].empty() || shapes_[p].rows > room) continue;
        const std::size_t c = best(p, false);
        if (c == value[p].size()) continue;
        const bool ahead =
            of == shapes_.size() || value[p][c] > value[of][column] ||
            (value[p][c] == value[of][column] && selected_[p][c] && !selected_[of][column]);
        if (ahead) of = p, column = c;
      }
      if (of == shapes_.size()) return result;
      result[of][column] = taken[of][column] = true;
      room -= shapes_[of].rows;
    }
  }

  [[nodiscard]] std::vector<bool> largest(std::size_t p, const std::vector<float>& gradient) const {
    const auto columns = static_cast<std::size_t>(shapes_[p].columns);
    const std::vector<float> squares = sizes(p, gradient);
    std::vector<std::size_t> order(columns);
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const float x = rule_.l1 ? squares[a] : std::sqrt(squares[a]);
      const float y = rule_.l1 ? squares[b] : std::sqrt(squares[b]);
      if (x != y) return x > y;
      return selected_[p][a] && !selected_[p][b];
    });
    std::vector<bool> result(columns, false);
    for (std::int64_t i = 0; i < shapes_[p].selected; ++i)
      result[order[static_cast<std::size_t>(i)]] = true;
    return result;
  }

  /// `steps`: that the update stands for.
  void update(std::size_t p, const std::vector<bool>& which, const std::vector<float>& gradient,
              float scale, std::int64_t steps = 1) {
    const bool scaled = rule_.scaling != 0 && steps > 1;
    const auto s = static_cast<double>(scaled ? steps : 1);
    const double times = !scaled              ? 1
                         : rule_.scaling == 1 ? std::sqrt(s)
                         : rule_.scaling == 2 ? s
                                              : std::pow(s, 0.75);
    const auto beta1 = static_cast<float>(std::pow(static_cast<double>(rule_.beta1), s));
    const auto beta2 = static_cast<float>(std::pow(static_cast<double>(rule_.beta2), s));
    const auto rate = static_cast<float>(static_cast<double>(rule_.learning_rate) * times);
    const auto weight_decay =
        decays_[p] ? static_cast<float>(static_cast<double>(rule_.weight_decay) * (s / times)) : 0;
    std::vector<float> step_size(which.size());
    std::vector<float> correction(which.size());
    for (std::size_t c = 0; c < which.size(); ++c) {
      if (!which[c]) continue;
      updates_[p][c] += static_cast<std::uint32_t>(s);
      const auto t = static_cast<double>(updates_[p][c]);
      step_size[c] = static_cast<float>(static_cast<double>(rate) /
                                        (1 - std::pow(static_cast<double>(rule_.beta1), t)));
      correction[c] =
          static_cast<float>(1 / std::sqrt(1 - std::pow(static_cast<double>(rule_.beta2), t)));
    }
    const auto decay =
        static_cast<float>(static_cast<double>(rate) * static_cast<double>(weight_decay));
    for_each(p, [&](std::size_t i, std::size_t c) {
      if (!which[c]) return;
      const float g = scale * gradient[i];
      m_[p][i] = std::fma(beta1, m_[p][i], (1 - beta1) * g);
      v_[p][i] = std::fma(beta2, v_[p][i], ((1 - beta2) * g) * g);
      const float d = std::fma(std::sqrt(v_[p][i]), correction[c], rule_.epsilon);
      const float decayed = std::fma(-decay, master_[p][i], master_[p][i]);
      master_[p][i] = std::fma(-step_size[c], m_[p][i] / d, decayed);
    });
  }

  void publish(std::size_t p, const std::vector<bool>& which) {
    for_each(p, [&](std::size_t i, std::size_t c) {
      if (!which[c]) return;
      working_[p][i] =
          rule_.bf16 ? kernels::to_float(kernels::round_to_bf16(master_[p][i])) : master_[p][i];
    });
  }

  SequentialRule rule_;
  std::vector<Shape> shapes_;
  std::vector<bool> decays_;
  Tensors master_, working_, m_, v_, sums_;
  std::vector<std::vector<std::uint32_t>> updates_;
  std::vector<std::vector<bool>> selected_;
  std::vector<std::vector<bool>> waiting_;  ///< deferred columns with an update under way
  std::int64_t step_ = 0;
  std::int64_t window_first_ = 0;
  std::int64_t window_steps_ = 1;
  std::int64_t windows_ = 0;
  std::int64_t last_selection_ = 0;
  double wanted_ratio_ = 0;
  bool selected_from_all_ = false;
};

}  // namespace zenflow::runtime::testing
