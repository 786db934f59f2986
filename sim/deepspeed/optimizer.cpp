#include "sim/deepspeed/optimizer.h"

#include <array>
#include <string>

#include "sim/base/text.h"

namespace zenflow::sim {
namespace {

struct Named {
  std::string_view type;
  Optimizer kind;
};
// MuAdam and its like differ from theirs in learning rates only.
constexpr std::array<Named, 9> kNames = {{{"adam", Optimizer::kAdam},
                                          {"adamw", Optimizer::kAdam},
                                          {"muadam", Optimizer::kAdam},
                                          {"muadamw", Optimizer::kAdam},
                                          {"adagrad", Optimizer::kAdagrad},
                                          {"lion", Optimizer::kLion},
                                          {"sgd", Optimizer::kSgd},
                                          {"musgd", Optimizer::kSgd},
                                          {"muon", Optimizer::kMuon}}};

/// Values of a parameter that one update reads or writes, and states that it keeps.
struct Accesses {
  double weights = 2;    ///< of p
  double gradients = 1;  ///< of g, or of what stands in its place
  double states = 0;
  double kept = 0;  ///< states
};

Accesses accesses(const OptimizerSettings& settings) {
  switch (settings.kind) {
    case Optimizer::kAdam:
      return {.states = 4, .kept = 2};
    case Optimizer::kAdagrad:
      return {.states = 2, .kept = 1};
    case Optimizer::kLion:
      return {.states = 2, .kept = 2};
    case Optimizer::kSgd:
      if (!settings.has_momentum) return {};
      return {.states = 5, .kept = 1};
    case Optimizer::kMuon:
      return {.weights = 4, .kept = 1};
  }
  return {};
}

OptimizerBytes of_one(const OptimizerSettings& settings) {
  const Accesses used = accesses(settings);
  const double wide = settings.narrow_master ? 2 : 4;
  const double state = settings.narrow_master && settings.narrow_states ? 2 : 4;
  return {.master = wide,
          .gradient = wide,
          .states = state * used.kept,
          .traffic = wide * (used.weights + used.gradients) + state * used.states};
}

}  // namespace

std::optional<Optimizer> find_optimizer(std::string_view type) {
  const std::string name = lower_case(type);
  for (const Named& one : kNames) {
    if (one.type == name) return one.kind;
  }
  return std::nullopt;
}

OptimizerBytes optimizer_bytes(const OptimizerSettings& settings, double in_matrices) {
  OptimizerBytes bytes = of_one(settings);
  if (settings.kind != Optimizer::kMuon) return bytes;
  OptimizerSettings others = settings;
  others.kind = Optimizer::kAdam;
  const OptimizerBytes adam = of_one(others);
  bytes.states = in_matrices * bytes.states + (1 - in_matrices) * adam.states;
  bytes.traffic = in_matrices * bytes.traffic + (1 - in_matrices) * adam.traffic;
  return bytes;
}

}  // namespace zenflow::sim
