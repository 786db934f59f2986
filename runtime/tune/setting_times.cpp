#include "runtime/tune/setting_times.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

namespace zenflow::runtime {
namespace {

using sim::TunePoint;

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

/// Row of a lower triangle that lies there by rows.
std::span<double> row(std::vector<double>& triangle, std::size_t i) {
  return {triangle.data() + i * (i + 1) / 2, i + 1};
}
std::span<const double> row(const std::vector<double>& triangle, std::size_t i) {
  return {triangle.data() + i * (i + 1) / 2, i + 1};
}

double dot(std::span<const double> a, std::span<const double> b, std::size_t count) {
  return std::inner_product(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(count), b.begin(),
                            0.0);
}

/// Cholesky's, in place. False: not positive definite.
bool factorize(std::vector<double>& covariance, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) {
    const std::span<double> mine = row(covariance, i);
    for (std::size_t j = 0; j < i; ++j) {
      const std::span<double> other = row(covariance, j);
      mine[j] = (mine[j] - dot(mine, other, j)) / other[j];
    }
    const double rest = mine[i] - dot(mine, mine, i);
    if (!(rest > 0)) return false;
    mine[i] = std::sqrt(rest);
  }
  return true;
}

/// The factor's inverse times `values`.
std::vector<double> whiten(const std::vector<double>& factor, std::vector<double> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::span<const double> mine = row(factor, i);
    values[i] = (values[i] - dot(mine, values, i)) / mine[i];
  }
  return values;
}

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
  // Of two next to each other, those that are short for how far they are from a change.
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

bool SettingTimes::weigh(Assumption& assumption, const std::vector<double>& off) const {
  const std::size_t size = blocks_.size();
  assumption.factor.resize(size * (size + 1) / 2);
  for (std::size_t i = 0; i < size; ++i) {
    const Block& a = blocks_[i];
    const std::span<double> mine = row(assumption.factor, i);
    for (std::size_t j = 0; j <= i; ++j) {
      const Block& b = blocks_[j];
      mine[j] = square(assumption.offset) * likeness(a.point, b.point);
      if (a.drifts == b.drifts) {
        mine[j] += square(kConstant) +
                   square(assumption.wander) * std::exp((b.time - a.time) / assumption.memory);
      }
      if (a.point == b.point && !model_.contains(a.point)) mine[j] += square(kUnpredicted);
    }
    mine[i] += square(assumption.noise) / static_cast<double>(a.windows);
  }
  if (!factorize(assumption.factor, size)) return false;
  assumption.whitened = whiten(assumption.factor, off);
  double log_likelihood = -0.5 * dot(assumption.whitened, assumption.whitened, size);
  for (std::size_t i = 0; i < size; ++i) log_likelihood -= std::log(row(assumption.factor, i)[i]);
  const double away = std::log(assumption.noise / kUsualNoise) / std::log(kNoiseFactor);
  assumption.weight = log_likelihood - 0.5 * square(away);
  return true;
}

const std::vector<SettingTimes::Assumption>& SettingTimes::assumptions() const {
  if (assumptions_) return *assumptions_;
  std::vector<double> off;
  for (const Block& block : blocks_) off.push_back(block.log_seconds - predicted(block));
  std::vector<Assumption> all;
  for (const double noise : kNoises) {
    for (const double wander : kWanders) {
      for (const double memory : kMemories) {
        for (const double offset : kOffsets) {
          Assumption one{noise, wander * noise, memory, offset};
          if (wander == 0 && memory != kMemories.front()) continue;
          if (!weigh(one, off)) continue;
          // As likely as one that wanders for any time.
          if (wander == 0) one.weight += std::log(static_cast<double>(kMemories.size()));
          all.push_back(std::move(one));
        }
      }
    }
  }
  assert(!all.empty());  // noise makes each positive definite
  double best = -INFINITY;
  for (const Assumption& one : all) best = std::max(best, one.weight);
  double sum = 0;
  for (Assumption& one : all) {
    one.weight = std::exp(one.weight - best);
    if (one.weight < kLeastWeight) one.weight = 0;
    sum += one.weight;
  }
  std::erase_if(all, [](const Assumption& one) { return one.weight == 0; });
  for (Assumption& one : all) one.weight /= sum;
  return assumptions_.emplace(std::move(all));
}

SettingTimes::Ratio SettingTimes::compare(const TunePoint& here, const TunePoint& other) const {
  if (here == other) return {};
  const double by_model = predicted(other) - predicted(here);
  const double apart = 1 - likeness(here, other);
  std::vector<double> likelier;  // to be as far off as `other` than as `here`
  for (const Block& block : blocks_) {
    likelier.push_back(likeness(other, block.point) - likeness(here, block.point));
  }
  // Where nothing is predicted, an offset of its own.
  const auto own = [&](const TunePoint& point, const Block& block) {
    return block.point == point && !model_.contains(point) ? square(kUnpredicted) : 0.0;
  };
  const double unpredicted =
      square(kUnpredicted) * ((model_.contains(here) ? 0 : 1) + (model_.contains(other) ? 0 : 1));
  double mean = 0;
  double squares = 0;
  for (const Assumption& one : assumptions()) {
    std::vector<double> covariance = likelier;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      covariance[i] *= square(one.offset);
      covariance[i] += own(other, blocks_[i]) - own(here, blocks_[i]);
    }
    covariance = whiten(one.factor, std::move(covariance));
    const double ratio = by_model + dot(covariance, one.whitened, covariance.size());
    const double variance = 2 * apart * square(one.offset) + unpredicted -
                            dot(covariance, covariance, covariance.size());
    mean += one.weight * ratio;
    squares += one.weight * (square(ratio) + std::max(0.0, variance));
  }
  return {mean, std::sqrt(std::max(0.0, squares - square(mean)))};
}

double SettingTimes::noise() const {
  double variance = 0;
  for (const Assumption& one : assumptions()) {
    variance += one.weight * (square(one.noise) + square(one.wander));
  }
  return std::sqrt(variance);
}

}  // namespace zenflow::runtime
