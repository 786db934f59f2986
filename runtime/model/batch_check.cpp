#include "runtime/model/batch_check.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

#include <fmt/format.h>

#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorKind::kInput, "batch: " + what);
}

void check_size(const char* what, std::size_t found, std::int64_t expected) {
  if (found != static_cast<std::size_t>(expected)) {
    fail(fmt::format("expected {} {}, found {}", expected, what, found));
  }
}

void check_tokens(const Batch& batch, std::int64_t vocabulary) {
  check_size("input tokens", batch.inputs.size(), batch.sequences * batch.length);
  for (std::size_t i = 0; i < batch.inputs.size(); ++i) {
    if (batch.inputs[i] >= 0 && batch.inputs[i] < vocabulary) continue;
    const auto length = static_cast<std::size_t>(batch.length);
    fail(fmt::format("sequence {}, position {}: token {} is not in the vocabulary of {}",
                     i / length, i % length, batch.inputs[i], vocabulary));
  }
}

void check_language_targets(const Batch& batch, std::int64_t vocabulary) {
  check_size("targets", batch.targets.size(), batch.sequences * batch.length);
  bool counts = false;
  for (std::size_t i = 0; i < batch.targets.size(); ++i) {
    const std::int32_t target = batch.targets[i];
    if (target == kIgnoredTarget) continue;
    counts = true;
    if (target >= 0 && target < vocabulary) continue;
    const auto length = static_cast<std::size_t>(batch.length);
    fail(
        fmt::format("sequence {}, position {}: target {} is neither in the vocabulary of {} nor {}",
                    i / length, i % length, target, vocabulary, kIgnoredTarget));
  }
  if (!counts) fail("every target is ignored: there is no loss");
}

void check_labels(const Batch& batch, std::int64_t labels) {
  if (labels == 1) {
    check_size("values", batch.values.size(), batch.sequences);
    const auto bad = std::find_if_not(batch.values.begin(), batch.values.end(),
                                      [](float value) { return std::isfinite(value); });
    if (bad != batch.values.end()) {
      fail(fmt::format("sequence {}: value {} is not finite", bad - batch.values.begin(), *bad));
    }
    return;
  }
  check_size("labels", batch.targets.size(), batch.sequences);
  for (std::size_t s = 0; s < batch.targets.size(); ++s) {
    if (batch.targets[s] >= 0 && batch.targets[s] < labels) continue;
    fail(fmt::format("sequence {}: label {} is not one of {}", s, batch.targets[s], labels));
  }
}

}  // namespace

void check_length(const TransformerConfig& config, std::int64_t length) {
  if (length > config.model.max_positions) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: expected sequences of at most {} tokens, the model's positions; "
                            "found {}",
                            config.model.name, config.model.max_positions, length));
  }
}

void check_batch(const Batch& batch, const TransformerConfig& config, BatchLimits limits) {
  if (batch.sequences < 1 || batch.sequences > limits.max_sequences) {
    fail(
        fmt::format("expected 1 to {} sequences, found {}", limits.max_sequences, batch.sequences));
  }
  if (batch.length < 1 || batch.length > limits.max_length) {
    fail(fmt::format("expected sequences of 1 to {} tokens, found {}", limits.max_length,
                     batch.length));
  }
  check_tokens(batch, config.model.vocab);
  if (config.task.is_classification()) {
    check_labels(batch, config.task.labels);
  } else {
    check_language_targets(batch, config.model.vocab);
  }
  if (batch.lengths.empty()) return;
  check_size("lengths", batch.lengths.size(), batch.sequences);
  for (std::size_t s = 0; s < batch.lengths.size(); ++s) {
    if (batch.lengths[s] >= 1 && batch.lengths[s] <= batch.length) continue;
    fail(fmt::format("sequence {}: length {} is not within 1 to {}", s, batch.lengths[s],
                     batch.length));
  }
}

}  // namespace zenflow::runtime
