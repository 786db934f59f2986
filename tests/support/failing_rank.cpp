/// zenflow-train whose work breaks where a test wants it to. The linker sends a few of its calls
/// here (tests/train_cli.cmake); ZENFLOW_FAULT="WHERE N WHAT" says which one breaks how:
///   WHERE  forward, backward (of a group of layers), update (AdamW on deferred columns, on the
///          optimizer's thread), fsync, rename (of files that get their name)
///   N      the N-th such call of the process, from 1
///   WHAT   KILL, STOP: the process gets the signal before it; ENOSPC: a full disk
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <span>
#include <sstream>
#include <string>
#include <string_view>

#include <unistd.h>

#include "kernels/adamw/adamw.h"
#include "runtime/model/transformer.h"

namespace zenflow::testing {
namespace {

struct Fault {
  std::string where;
  int nth = 0;
  std::string what;

  Fault() {
    const char* const text = std::getenv("ZENFLOW_FAULT");
    if (text != nullptr) std::istringstream(text) >> where >> nth >> what;
  }
};

/// Whether this call has to fail with errno set.
bool fails(std::string_view where) {
  static const Fault fault;
  static std::atomic<int> calls = 0;
  if (where != fault.where || ++calls != fault.nth) return false;
  // To all threads at once: nothing goes on.
  if (fault.what == "KILL") static_cast<void>(::kill(::getpid(), SIGKILL));
  if (fault.what == "STOP") static_cast<void>(::kill(::getpid(), SIGSTOP));
  errno = ENOSPC;
  return fault.what == "ENOSPC";
}

using Weights = std::span<const void* const>;
using Gradients = std::span<void* const>;
using State = kernels::AdamWState<float, float>;

// NOLINTBEGIN: names that the linker makes of those that are wrapped
#define FORWARD "_ZN7zenflow7runtime15HostTransformer7forwardEmSt4spanIKPKvLm18446744073709551615EE"
#define BACKWARD                                                                          \
  "_ZN7zenflow7runtime15HostTransformer8backwardEmSt4spanIKPKvLm18446744073709551615EES2" \
  "_IKPvLm18446744073709551615EE"
#define ADAMW                                                                                  \
  "_ZN7zenflow7kernels5adamwIffffEEvRKNS0_13AdamWSettingsENS0_14BiasCorrectionEfmNS0_10AdamWS" \
  "tateIT_T0_EEPKT1_PT2_NS0_3IsaE"
// NOLINTEND

}  // namespace

void real_forward(runtime::HostTransformer*, std::size_t, Weights) asm("__real_" FORWARD);
void forward(runtime::HostTransformer*, std::size_t, Weights) asm("__wrap_" FORWARD);
void forward(runtime::HostTransformer* model, std::size_t group, Weights weights) {
  static_cast<void>(fails("forward"));
  real_forward(model, group, weights);
}

void real_backward(runtime::HostTransformer*, std::size_t, Weights,
                   Gradients) asm("__real_" BACKWARD);
void backward(runtime::HostTransformer*, std::size_t, Weights, Gradients) asm("__wrap_" BACKWARD);
void backward(runtime::HostTransformer* model, std::size_t group, Weights weights,
              Gradients gradients) {
  static_cast<void>(fails("backward"));
  real_backward(model, group, weights, gradients);
}

void real_adamw(const kernels::AdamWSettings&, kernels::BiasCorrection, float, std::size_t, State,
                const float*, float*, kernels::Isa) asm("__real_" ADAMW);
void adamw(const kernels::AdamWSettings&, kernels::BiasCorrection, float, std::size_t, State,
           const float*, float*, kernels::Isa) asm("__wrap_" ADAMW);
void adamw(const kernels::AdamWSettings& settings, kernels::BiasCorrection correction, float scale,
           std::size_t n, State state, const float* gradient, float* copy, kernels::Isa isa) {
  static_cast<void>(fails("update"));
  real_adamw(settings, correction, scale, n, state, gradient, copy, isa);
}

}  // namespace zenflow::testing

extern "C" {

int __real_fsync(int descriptor);
int __real_rename(const char* from, const char* to);

int __wrap_fsync(int descriptor) {
  return zenflow::testing::fails("fsync") ? -1 : __real_fsync(descriptor);
}
int __wrap_rename(const char* from, const char* to) {
  return zenflow::testing::fails("rename") ? -1 : __real_rename(from, to);
}

}  // extern "C"
