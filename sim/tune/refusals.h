/// Why nobody would run a setting, apart from memory and limits.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "sim/tune/tune_request.h"
#include "sim/tune/tuned_config.h"

namespace zenflow::sim {

/// The rules of the runtime that is tuned for: DeepSpeed's and its launcher's with what the linter
/// knows; zenflow-train's own for what it runs, since it reads no DeepSpeed file.
class Refusals {
 public:
  /// `document`: the user's DeepSpeed document as strict JSON would read it. The referenced outlive
  /// this.
  Refusals(const TuneRequest& request, const Node& document)
      : request_(request), document_(document) {}

  /// Empty if somebody would run it. Remembers what the linter said. Not for use by two threads at
  /// once.
  [[nodiscard]] const std::string& of(const Setting& setting);
  /// The same, not remembered: also for values that the space does not have.
  [[nodiscard]] std::string of_any(const Setting& setting) const;
  /// What is refused whatever ZenFlow's knobs are.
  [[nodiscard]] std::string of_rest(const Setting& setting) const;

 private:
  [[nodiscard]] bool drops_accumulation() const {
    return zenflow_drops_accumulation(request_.family, request_.job.target);
  }
  [[nodiscard]] std::string of_placement(const Setting& setting) const;
  [[nodiscard]] std::string by_deepspeed(const Setting& setting) const;
  [[nodiscard]] std::string by_schedule(const Setting& setting) const;

  const TuneRequest& request_;
  const Node& document_;
  std::unordered_map<std::uint64_t, std::string> known_;
};

}  // namespace zenflow::sim
