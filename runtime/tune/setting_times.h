/// What step times a setting has compared with another one, from windows that were measured at
/// different times on a machine that is not the same all the time, and from predictions that are
/// not exact.
///
/// The logarithm of a window's step time is taken for the sum of
///
///   that of the setting's prediction
///   a constant       of the machine, about which nothing is known
///   an offset        of the setting, by which predictions are off; near ones by about as much
///   a wander         of the machine, which all settings have alike: what it has now it has lost
///                    after some windows
///   a noise          of the window
///
/// with normal deviations: a Gaussian process (Rasmussen and Williams 2006, chapters 2 and 5) over
/// settings and time. How large offsets, wander and noise are, and how long the wander remembers,
/// is not known either: a grid of values is weighed by how well each explains what was measured.
/// So two settings are compared by windows near the change from one to the other, and by others as
/// far as the machine has not changed in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "runtime/tune/live_prediction.h"

namespace zenflow::runtime {

class SettingTimes {
 public:
  /// The ratio of one setting's step time to another's: exp(log_ratio), give or take a standard
  /// deviation.
  struct Ratio {
    double log_ratio = 0;
    double deviation = 0;
  };

  /// The machine has become another one, at window `from`: windows since are forgotten, and no
  /// constant and no wander connects what comes with what has been.
  void drift(std::int64_t from);
  /// Predicted seconds, from now on; of windows since the last drift, too. Those before keep the
  /// last predictions of their time. They are forgotten if the new one of their setting, compared
  /// with that of `here`, is another one than then by more than `tolerance`, in logarithms; and so
  /// are those of a time in which nothing was predicted.
  void set_model(std::map<TunePoint, double> model, const TunePoint& here, double tolerance);
  /// A window's step time, in seconds. Preconditions: `window` is larger than any before, and
  /// `seconds` finite and larger than 0.
  void add(const TunePoint& point, std::int64_t window, double seconds);

  [[nodiscard]] const std::map<TunePoint, double>& model() const { return model_; }
  /// And not forgotten.
  [[nodiscard]] bool tried(const TunePoint& point) const;
  /// The time of `other` by that of `here`. Precondition: each of them is predicted or has been
  /// tried.
  [[nodiscard]] Ratio compare(const TunePoint& here, const TunePoint& other) const;
  /// Standard deviation of a window's logarithm, wander and noise: as good as relative.
  [[nodiscard]] double noise() const;

 private:
  using Model = std::map<TunePoint, double>;
  /// Windows in a row at one setting.
  struct Block {
    TunePoint point;
    std::int64_t drifts = 0;  ///< before it
    std::int64_t visit = 0;   ///< counted: two to one setting are not one
    double time = 0;          ///< mean window
    double log_seconds = 0;   ///< mean
    std::int64_t windows = 0;
  };
  /// Values on the grid that count, and what follows from them. All assumptions lie beside each
  /// other, so that a step is made for all of them at once.
  struct Assumptions {
    std::size_t count = 0;
    std::vector<double> noise{};  ///< standard deviations
    std::vector<double> wander{};
    std::vector<double> offset{};
    std::vector<double> weight{};    ///< all add up to 1
    std::vector<double> factor{};    ///< of the blocks' covariance: lower triangle, by rows
    std::vector<double> whitened{};  ///< the factor's inverse times logarithms off predictions
  };

  [[nodiscard]] const Assumptions& assumptions() const;
  [[nodiscard]] double likeness(const TunePoint& a, const TunePoint& b) const;
  [[nodiscard]] double predicted(const TunePoint& point) const;
  /// When it was measured; if nothing was, by what is predicted now.
  [[nodiscard]] double predicted(const Block& block) const;
  /// Blocks become fewer: the longer ones, the farther from a change.
  void shorten();

  Model model_;
  std::int64_t model_drifts_ = 0;       ///< before it came
  std::map<std::int64_t, Model> past_;  ///< the last ones before drifts, by drifts before them
  std::vector<Block> blocks_;
  std::int64_t drifts_ = 0;
  std::int64_t visits_ = 0;
  mutable std::optional<Assumptions> assumptions_;  ///< nothing: to be found anew
};

}  // namespace zenflow::runtime
