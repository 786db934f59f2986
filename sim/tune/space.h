/// The values that each knob may take: the whole of what is searched.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

#include "sim/schedule/job.h"
#include "sim/tune/setting.h"

namespace zenflow::sim {

/// What is tuned: what DeepSpeed ships, the rule as published, or zenflow-train's operations.
enum class Family : std::uint8_t { kDeepSpeed, kPublished, kLive };
[[nodiscard]] std::string_view to_string(Family family);  ///< the schedule's name
/// "deepspeed-zenflow", "zenflow" or "live-zenflow". Throws Error(kInput) for another.
[[nodiscard]] Family find_family(std::string_view schedule);

class Space {
 public:
  [[nodiscard]] const std::vector<double>& values(Knob knob) const {
    return values_[static_cast<std::size_t>(knob)];
  }
  /// Sorted, without duplicates.
  void set(Knob knob, std::vector<double> values);
  void add(Knob knob, double value);
  /// As set, by who asks for just these values.
  void narrow(Knob knob, std::vector<double> values);
  [[nodiscard]] bool is_narrowed(Knob knob) const {
    return narrowed_[static_cast<std::size_t>(knob)];
  }

  /// The number of combinations.
  [[nodiscard]] std::uint64_t size() const;
  /// The same, also where 64 bits cannot count them.
  [[nodiscard]] double points() const;
  /// Combination `index`; the last knob varies fastest. Precondition: index < size().
  [[nodiscard]] Setting at(std::uint64_t index) const;
  /// The index of a setting of which all values are in the space.
  [[nodiscard]] std::uint64_t index_of(const Setting& setting) const;
  [[nodiscard]] bool contains(const Setting& setting) const;
  /// Equal for settings of the space that agree in the knobs named.
  [[nodiscard]] std::uint64_t key(const Setting& setting, std::initializer_list<Knob> which) const;

 private:
  std::array<std::vector<double>, kKnobs> values_;
  std::bitset<kKnobs> narrowed_;
};

/// Whether the family's runtime has the knob.
[[nodiscard]] bool has_knob(Family family, Knob knob);
/// Whether it is of the scenario's zenflow_train block, for which DeepSpeed has no keys.
[[nodiscard]] bool is_of_block(const KnobInfo& knob);

/// The job's own value of every knob.
[[nodiscard]] Setting setting_of(const Job& job);
/// Whether ZenFlow makes every micro-batch a step: as published, and DeepSpeed's under its own
/// launcher. zenflow-train's steps have as many as it is told.
[[nodiscard]] bool zenflow_drops_accumulation(Family family, LaunchTarget target);
/// Sequences of one step of all ranks: micro-batch, accumulation (unless ZenFlow drops it) and
/// ranks multiplied.
[[nodiscard]] std::int64_t global_batch_of(const Job& job, Family family);

/// All that a family has, the job's own values among them. `global_batch` bounds the micro-batch.
[[nodiscard]] Space default_space(const Job& job, Family family, std::int64_t global_batch);

/// `text`: "KEY=A,B,C" or "KEY=LOW:HIGH:STEP". Throws Error(kInput) for an unknown knob or value.
void narrow(Space& space, const std::string& text);
/// A YAML map of knobs and lists of values (a single value counts as a list). Throws Error(kInput),
/// located.
void narrow_by_file(Space& space, const std::filesystem::path& path);
/// What divides the global batch depends on the numbers of GPUs: where those were narrowed, the
/// default values that come of it are made anew, unless they were narrowed themselves.
void follow_gpus(Space& space, const Job& job, Family family, std::int64_t global_batch);

}  // namespace zenflow::sim
