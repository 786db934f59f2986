#include "runtime/tune/setting_times.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <utility>

#include <Eigen/Core>

namespace zenflow::runtime {
namespace {

// The grid: relative, but for what is said otherwise.
constexpr std::array kNoises = {0.003, 0.006, 0.012, 0.024, 0.048, 0.096};
constexpr std::array kWanders = {0.0, 0.7, 1.5, 3.0};  // of the noise
constexpr std::array kMemories = {4.0, 16.0, 64.0};    // windows
constexpr std::array kOffsets = {0.02, 0.06, 0.2};
// Before anything is measured noise is about this, or so many times as much or as little.
constexpr double kUsualNoise = 0.02;
constexpr double kNoiseFactor = 2.5;

constexpr double kConstant = 1;     // deviation of the machine's constant: as good as any
constexpr double kUnpredicted = 1;  // of a setting's offset where nothing is predicted
constexpr std::size_t kMostBlocks = 32;
constexpr double kLeastWeight = 1e-3;  // of an assumption, compared with the best one

double distance(const TunePoint& a, const TunePoint& b) {
  const double k = a.topk_ratio > 0 && b.topk_ratio > 0 ? std::log(a.topk_ratio / b.topk_ratio) : 0;
  return std::abs(std::log(static_cast<double>(a.update_interval) /
                           static_cast<double>(b.update_interval))) +
         std::abs(k);
}

constexpr double square(double x) {
  return x * x;
}

/// By assumption.
using Values = Eigen::ArrayXd;

/// Where row i, column j of a lower triangle lies, by rows.
constexpr Eigen::Index entry(std::size_t i, std::size_t j) {
  return static_cast<Eigen::Index>(i * (i + 1) / 2 + j);
}

/// A column for each entry. Rows of the triangle, or of a vector.
Eigen::Map<const Eigen::ArrayXXd> columns(const std::vector<double>& values, std::size_t count) {
  const auto rows = static_cast<Eigen::Index>(count);
  return {values.data(), rows, static_cast<Eigen::Index>(values.size()) / rows};
}

/// Cholesky's factor, in place. NaN where a covariance is not positive definite.
void factorize(Eigen::ArrayXXd& covariance, std::size_t size) {
  Values sum(covariance.rows());
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      sum.setZero();
      for (std::size_t k = 0; k < j; ++k) {
        sum += covariance.col(entry(i, k)) * covariance.col(entry(j, k));
      }
      auto mine = covariance.col(entry(i, j));
      if (j < i) {
        mine = (mine - sum) / covariance.col(entry(j, j));
      } else {
        mine = (mine - sum > 0).select(mine - sum, NAN).sqrt();
      }
    }
  }
}

/// The factor's inverse times `values`, in place.
template <class Factor>
void whiten(const Factor& factor, Eigen::ArrayXXd& values) {
  Values sum(values.rows());
  for (Eigen::Index i = 0; i < values.cols(); ++i) {
    sum.setZero();
    for (Eigen::Index k = 0; k < i; ++k) {
      sum += factor.col(entry(static_cast<std::size_t>(i), static_cast<std::size_t>(k))) *
             values.col(k);
    }
    values.col(i) = (values.col(i) - sum) /
                    factor.col(entry(static_cast<std::size_t>(i), static_cast<std::size_t>(i)));
  }
}

/// By assumption, of entries in their order.
template <class A, class B>
Values dot(const A& a, const B& b) {
  Values sum = Values::Zero(a.rows());
  for (Eigen::Index i = 0; i < a.cols(); ++i) sum += a.col(i) * b.col(i);
  return sum;
}

/// All combinations of noise, wander, memory and offset. Without wander memory has no effect, so
/// there is one.
struct Grid {
  Grid() {
    for (const double noise : kNoises) {
      for (const double wander : kWanders) {
        for (std::size_t memory = 0; memory < (wander == 0 ? 1 : kMemories.size()); ++memory) {
          for (const double offset : kOffsets) {
            noises.push_back(noise);
            wanders.push_back(wander * noise);
            memories.push_back(memory);
            offsets.push_back(offset);
          }
        }
      }
    }
  }

  std::vector<double> noises;
  std::vector<double> wanders;
  std::vector<std::size_t> memories;  ///< places in kMemories
  std::vector<double> offsets;
};

}  // namespace

void SettingTimes::drift(std::int64_t from) {
  std::erase_if(blocks_,
                [&](const Block& block) { return block.time >= static_cast<double>(from); });
  ++drifts_;
  assumptions_.reset();
}

void SettingTimes::set_model(std::map<TunePoint, double> model, const TunePoint& here,
                             double tolerance) {
  if (model_drifts_ < drifts_) past_[model_drifts_] = std::move(model_);
  model_ = std::move(model);
  model_drifts_ = drifts_;
  const auto ratio = [&](const Model& of, const TunePoint& point) {
    const auto one = of.find(point);
    const auto other = of.find(here);
    return one == of.end() || other == of.end() ? NAN : std::log(one->second / other->second);
  };
  std::erase_if(blocks_, [&](const Block& block) {
    if (block.drifts == drifts_) return false;
    const auto then = past_.find(block.drifts);
    if (then == past_.end()) return true;
    const double change = ratio(model_, block.point) - ratio(then->second, block.point);
    return !(std::abs(change) <= tolerance);
  });
  std::erase_if(past_, [&](const auto& one) {
    return std::none_of(blocks_.begin(), blocks_.end(),
                        [&](const Block& block) { return block.drifts == one.first; });
  });
  assumptions_.reset();
}

void SettingTimes::add(const TunePoint& point, std::int64_t window, double seconds) {
  assert(std::isfinite(seconds) && seconds > 0);
  if (blocks_.empty() || !(blocks_.back().point == point) || blocks_.back().drifts < drifts_) {
    ++visits_;
  }
  blocks_.push_back({point, drifts_, visits_, static_cast<double>(window), std::log(seconds), 1});
  shorten();
  assumptions_.reset();
}

void SettingTimes::shorten() {
  if (blocks_.size() <= kMostBlocks) return;
  // Merge the two neighbouring blocks that are shortest for their distance from a change.
  auto shortest = blocks_.end();
  double least = INFINITY;
  for (auto begin = blocks_.begin(); begin != blocks_.end();) {
    const auto end = std::find_if(begin, blocks_.end(),
                                  [&](const Block& block) { return block.visit != begin->visit; });
    for (auto block = begin; block + 1 != end; ++block) {
      const Block& next = *(block + 1);
      const double away = std::min(next.time - begin->time, (end - 1)->time - block->time);
      const double length = static_cast<double>(block->windows + next.windows) / (1 + away);
      if (length < least) {
        least = length;
        shortest = block;
      }
    }
    begin = end;
  }
  if (shortest == blocks_.end()) {  // a visit each
    blocks_.erase(blocks_.begin());
    return;
  }
  const Block& next = *(shortest + 1);
  shortest->windows += next.windows;
  const double part = static_cast<double>(next.windows) / static_cast<double>(shortest->windows);
  shortest->time += part * (next.time - shortest->time);
  shortest->log_seconds += part * (next.log_seconds - shortest->log_seconds);
  blocks_.erase(shortest + 1);
}

bool SettingTimes::tried(const TunePoint& point) const {
  return std::any_of(blocks_.begin(), blocks_.end(),
                     [&](const Block& block) { return block.point == point; });
}

double SettingTimes::predicted(const TunePoint& point) const {
  const auto found = model_.find(point);
  if (found != model_.end()) return std::log(found->second);
  return std::find_if(blocks_.begin(), blocks_.end(),
                      [&](const Block& block) { return block.point == point; })
      ->log_seconds;
}

double SettingTimes::predicted(const Block& block) const {
  const auto then = past_.find(block.drifts);
  if (then == past_.end()) return predicted(block.point);
  // What it was not predicted for then is forgotten.
  return std::log(then->second.at(block.point));
}

double SettingTimes::likeness(const TunePoint& a, const TunePoint& b) const {
  return std::exp(-distance(a, b));
}

const SettingTimes::Assumptions& SettingTimes::assumptions() const {
  if (assumptions_) return *assumptions_;
  static const Grid kGrid;
  const std::size_t size = blocks_.size();
  const auto count = static_cast<Eigen::Index>(kGrid.noises.size());
  const auto squares = [&](const std::vector<double>& values) {
    return Values(Eigen::Map<const Values>(values.data(), count).square());
  };
  const Values noise = squares(kGrid.noises);
  const Values wander = squares(kGrid.wanders);
  const Values offset = squares(kGrid.offsets);
  Eigen::ArrayXXd factor(count, entry(size, 0));
  Values left(count);
  for (std::size_t i = 0; i < size; ++i) {
    const Block& a = blocks_[i];
    for (std::size_t j = 0; j <= i; ++j) {
      const Block& b = blocks_[j];
      auto mine = factor.col(entry(i, j));
      mine = offset * likeness(a.point, b.point);
      if (a.drifts == b.drifts) {
        std::array<double, kMemories.size()> by_memory{};
        for (std::size_t m = 0; m < by_memory.size(); ++m) {
          by_memory[m] = std::exp((b.time - a.time) / kMemories[m]);
        }
        for (Eigen::Index g = 0; g < count; ++g) {
          left(g) = by_memory[kGrid.memories[static_cast<std::size_t>(g)]];
        }
        mine += square(kConstant) + wander * left;
      }
      if (a.point == b.point && !model_.contains(a.point)) mine += square(kUnpredicted);
    }
    factor.col(entry(i, i)) += noise / static_cast<double>(a.windows);
  }
  factorize(factor, size);
  Eigen::ArrayXXd whitened(count, static_cast<Eigen::Index>(size));
  for (std::size_t i = 0; i < size; ++i) {
    whitened.col(static_cast<Eigen::Index>(i)) = blocks_[i].log_seconds - predicted(blocks_[i]);
  }
  whiten(factor, whitened);
  Values weight = -0.5 * dot(whitened, whitened);
  for (std::size_t i = 0; i < size; ++i) {
    weight -= factor.col(entry(i, i)).unaryExpr([](double x) { return std::log(x); });
  }
  for (Eigen::Index g = 0; g < count; ++g) {
    const auto at = static_cast<std::size_t>(g);
    const double away = std::log(kGrid.noises[at] / kUsualNoise) / std::log(kNoiseFactor);
    weight(g) -= 0.5 * square(away);
    // As likely as one that wanders for any time.
    if (kGrid.wanders[at] == 0) weight(g) += std::log(static_cast<double>(kMemories.size()));
  }
  double best = -INFINITY;
  for (const double one : weight) best = std::max(best, std::isnan(one) ? -INFINITY : one);
  assert(best > -INFINITY);  // noise makes each positive definite
  double sum = 0;
  std::vector<Eigen::Index> kept;
  for (Eigen::Index g = 0; g < count; ++g) {
    weight(g) = std::exp(weight(g) - best);
    if (!(weight(g) >= kLeastWeight)) continue;
    sum += weight(g);
    kept.push_back(g);
  }
  Assumptions& found = assumptions_.emplace(Assumptions{});
  found.count = kept.size();
  for (const Eigen::Index g : kept) {
    const auto at = static_cast<std::size_t>(g);
    found.noise.push_back(kGrid.noises[at]);
    found.wander.push_back(kGrid.wanders[at]);
    found.offset.push_back(kGrid.offsets[at]);
    found.weight.push_back(weight(g) / sum);
  }
  for (const auto& column : factor.colwise()) {
    for (const Eigen::Index g : kept) found.factor.push_back(column(g));
  }
  for (const auto& column : whitened.colwise()) {
    for (const Eigen::Index g : kept) found.whitened.push_back(column(g));
  }
  return found;
}

SettingTimes::Ratio SettingTimes::compare(const TunePoint& here, const TunePoint& other) const {
  if (here == other) return {};
  const Assumptions& all = assumptions();
  const auto count = static_cast<Eigen::Index>(all.count);
  const Values offset = Eigen::Map<const Values>(all.offset.data(), count).square();
  // Where nothing is predicted, an offset of its own.
  const auto own = [&](const TunePoint& point, const Block& block) {
    return block.point == point && !model_.contains(point) ? square(kUnpredicted) : 0.0;
  };
  Eigen::ArrayXXd covariance(count, static_cast<Eigen::Index>(blocks_.size()));
  Eigen::Index i = 0;
  for (const Block& block : blocks_) {
    // To be as far off as `other` is likelier than as `here` is, by so much.
    const double likelier = likeness(other, block.point) - likeness(here, block.point);
    covariance.col(i++) = likelier * offset + (own(other, block) - own(here, block));
  }
  whiten(columns(all.factor, all.count), covariance);
  const double unpredicted =
      square(kUnpredicted) * ((model_.contains(here) ? 0 : 1) + (model_.contains(other) ? 0 : 1));
  const double apart = 1 - likeness(here, other);
  const Values ratio =
      (predicted(other) - predicted(here)) + dot(covariance, columns(all.whitened, all.count));
  const Values variance = 2 * apart * offset + unpredicted - dot(covariance, covariance);
  double mean = 0;
  double squares = 0;
  for (Eigen::Index a = 0; a < count; ++a) {
    const double weight = all.weight[static_cast<std::size_t>(a)];
    mean += weight * ratio(a);
    squares += weight * (square(ratio(a)) + std::max(0.0, variance(a)));
  }
  return {mean, std::sqrt(std::max(0.0, squares - square(mean)))};
}

double SettingTimes::noise() const {
  const Assumptions& all = assumptions();
  double variance = 0;
  for (std::size_t a = 0; a < all.count; ++a) {
    variance += all.weight[a] * (square(all.noise[a]) + square(all.wander[a]));
  }
  return std::sqrt(variance);
}

}  // namespace zenflow::runtime
