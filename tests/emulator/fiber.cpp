#include "tests/emulator/fiber.h"

#include <cstddef>
#include <utility>
#include <vector>

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>

#include "tests/support/sanitizers.h"

#if defined(ZENFLOW_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace zenflow::emulator {
namespace {

/// Kernels keep little on the stack; without optimisation and with redzones it is more.
constexpr std::size_t kStackBytes = std::size_t{256} * 1024;

/// A fiber's last frames never return, and what they poisoned would outlast their memory: a new
/// thread's thread-local variables may come to lie there, and AddressSanitizer clears the shadow of
/// a thread's stack, but not of those.
void unpoison(const boost::context::stack_context& stack) {
#if defined(ZENFLOW_ADDRESS_SANITIZER)
  __asan_unpoison_memory_region(static_cast<std::byte*>(stack.sp) - stack.size, stack.size);
#else
  static_cast<void>(stack);
#endif
}

/// Stacks with a page behind them that must not be touched, kept for the fibers to come: a launch
/// can need a thousand, and making one takes several system calls.
class StackPool {
 public:
  StackPool() = default;
  ~StackPool() {
    for (boost::context::stack_context& stack : free_) allocator_.deallocate(stack);
  }
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  boost::context::stack_context allocate() {
    if (free_.empty()) return allocator_.allocate();
    const boost::context::stack_context stack = free_.back();
    free_.pop_back();
    return stack;
  }
  void deallocate(const boost::context::stack_context& stack) {
    unpoison(stack);
    free_.push_back(stack);
  }

 private:
  boost::context::protected_fixedsize_stack allocator_{kStackBytes};
  std::vector<boost::context::stack_context> free_;
};

thread_local StackPool pool;

/// The pool of the thread, as Boost wants a stack allocator: copied.
struct PooledStack {
  static boost::context::stack_context allocate() { return pool.allocate(); }
  static void deallocate(const boost::context::stack_context& stack) { pool.deallocate(stack); }
};

/// AddressSanitizer has to be told which stack is in use: leave() right before a switch to `to`,
/// arrive() right after the switch.
struct Stack {
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  void* fake = nullptr;
};

#if defined(ZENFLOW_ADDRESS_SANITIZER)
void leave(Stack& from, const Stack& to, bool for_good) {
  __sanitizer_start_switch_fiber(for_good ? nullptr : &from.fake, to.bottom, to.bytes);
}
void arrive(Stack& here, Stack& came_from) {
  __sanitizer_finish_switch_fiber(here.fake, &came_from.bottom, &came_from.bytes);
}
#else
void leave(Stack&, const Stack&, bool) {}
void arrive(Stack&, Stack&) {}
#endif

}  // namespace

struct Fiber::Context {
  boost::context::fiber fiber;
  boost::context::fiber caller;
  Stack stack;
  Stack caller_stack;
};

Fiber::Fiber(std::function<void()> body) : context_(std::make_unique<Context>()) {
  namespace context = boost::context;
  const context::stack_context memory = pool.allocate();
  Context* self = context_.get();
  self->stack.bottom = static_cast<std::byte*>(memory.sp) - memory.size;
  self->stack.bytes = memory.size;
  self->fiber =
      context::fiber(std::allocator_arg, context::preallocated(memory.sp, memory.size, memory),
                     PooledStack{}, [self, run = std::move(body)](context::fiber&& caller) {
                       arrive(self->stack, self->caller_stack);
                       self->caller = std::move(caller);
                       run();
                       leave(self->stack, self->caller_stack, true);
                       return std::move(self->caller);
                     });
}

Fiber::~Fiber() = default;

void Fiber::resume() {
  Context& c = *context_;
  leave(c.caller_stack, c.stack, false);
  c.fiber = std::move(c.fiber).resume();
  // What arrive() reports here is the fiber's own stack, which is known.
  Stack known;
  arrive(c.caller_stack, known);
}

void Fiber::suspend() {
  Context& c = *context_;
  leave(c.stack, c.caller_stack, false);
  c.caller = std::move(c.caller).resume();
  arrive(c.stack, c.caller_stack);
}

}  // namespace zenflow::emulator
