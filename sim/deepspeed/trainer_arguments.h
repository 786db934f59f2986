/// What HF Trainer compares of a DeepSpeed file with its own arguments, and raises on if it
/// differs.
#pragma once

#include <string>
#include <vector>

#include "sim/base/text.h"
#include "sim/config/document.h"

namespace zenflow::sim {

/// An argument that has to say what the file says. Values that are absent, null or "auto" need
/// none: Trainer fills those in.
struct TrainerArgument {
  std::string path;      ///< "optimizer.params.lr"
  std::string argument;  ///< "--learning_rate"
  std::string value;     ///< as the file writes it; empty: a switch that is given

  /// As a shell reads it.
  [[nodiscard]] std::string text() const {
    return value.empty() ? argument : argument + " " + shell_word(value);
  }
};

/// An argument that somebody gives to Trainer, with where it is written.
struct StatedArgument {
  std::string name;  ///< transformers' own, "learning_rate"
  Node value;        ///< a number, or true or false
};

/// In the order of transformers' fill_match (integrations/deepspeed.py). Left out are
/// train_batch_size and the scheduler's total_num_steps, which Trainer works out itself.
[[nodiscard]] std::vector<TrainerArgument> trainer_arguments(const Node& root);

}  // namespace zenflow::sim
