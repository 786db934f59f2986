/// What is known of a job, each fact with where it comes from.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/config/document.h"

namespace zenflow::sim {

/// A key of a scenario with its value.
struct JobFact {
  std::string path;   ///< "training.micro_batch_size_per_gpu"
  std::string value;  ///< YAML text
  /// Shown to the user: "--gpus", "train.yaml:12:5", "default of axolotl 0.19", "a typical host".
  Location source;
  bool is_estimate = false;  ///< neither said by the user nor what a program does
};

/// The first who says something holds: flags come first, then files, then what programs take for
/// granted, then estimates.
class JobFacts {
 public:
  /// Whether it is new.
  bool add(JobFact fact);
  void state(std::string path, std::string value, const Location& source) {
    add({std::move(path), std::move(value), source, false});
  }
  /// `by`: what a program does if nobody says otherwise, and its release.
  void assume(std::string path, std::string value, const std::string& by);
  void estimate(std::string path, std::string value, const std::string& why);

  /// Takes it away, if it is there.
  std::optional<JobFact> take(std::string_view path);
  /// Precondition: it is there.
  void replace(std::string_view path, std::string value, const Location& source);

  [[nodiscard]] const JobFact* find(std::string_view path) const;
  [[nodiscard]] std::string value_or(std::string_view path, std::string_view otherwise) const;
  [[nodiscard]] const std::vector<JobFact>& all() const { return facts_; }

 private:
  std::vector<JobFact> facts_;
};

/// A source that is not a file: "--gpus".
[[nodiscard]] Location source_named(std::string name);

}  // namespace zenflow::sim
