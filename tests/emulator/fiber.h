/// A stack of its own on which code runs until it suspends itself; known to AddressSanitizer.
#pragma once

#include <functional>
#include <memory>

namespace zenflow::emulator {

/// Belongs to one thread of the host. `body` has to have returned before a fiber is destroyed, and
/// must not throw.
class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs the body from where it is to its next suspend() or its end.
  void resume();
  /// Called by the body: back to whoever resumed it.
  void suspend();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace zenflow::emulator
