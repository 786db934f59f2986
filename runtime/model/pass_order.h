/// The order in which a step visits a model's groups: forward of each, then backward of each in
/// reverse. A group out of order would compute from another step's activations.
#pragma once

#include <cstddef>

namespace zenflow::runtime {

class PassOrder {
 public:
  /// No step is open before the first `begin`.
  explicit PassOrder(std::size_t groups) : groups_(groups), turn_(2 * groups) {}

  void begin() { turn_ = 0; }
  void end() { turn_ = 2 * groups_; }
  /// Throw Error(kRuntime) unless it is the group's turn.
  void forward(std::size_t group) { take(group, true); }
  void backward(std::size_t group) { take(group, false); }

 private:
  void take(std::size_t group, bool is_forward);

  std::size_t groups_;
  std::size_t turn_;  // passes of the step done
};

}  // namespace zenflow::runtime
