/// What validations found, and its place in a checkpoint: a resumed run reports all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/checkpoint/checkpoint_reader.h"
#include "runtime/checkpoint/checkpoint_writer.h"
#include "runtime/train/data_feed.h"

namespace zenflow::runtime {

struct Validation {
  std::int64_t step = 0;  ///< steps done
  double loss = 0;
  std::vector<NamedValue> metrics{};
};

/// Two sections: "validations", rows of step, loss and the metrics, and "validation metrics", their
/// names.
void save_validations(const std::vector<Validation>& validations, CheckpointWriter& writer);
/// Throws Error(kInput) if the rows do not have as many metrics as there are names, or are not of
/// steps of a run that has done `steps`.
[[nodiscard]] std::vector<Validation> restore_validations(CheckpointReader& reader,
                                                          std::int64_t steps);

}  // namespace zenflow::runtime
