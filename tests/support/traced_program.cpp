// A program that uses CUDA, without CUDA: does what the driver would do in cuInit, then leaves the
// records of a training step. Usage: traced_program WHAT, see main.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/cupti_records.h"
#include "tests/support/fake_cupti.h"

namespace {

void* cupti = nullptr;

template <class Function>
Function* function(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(cupti, name));
}

template <class Record>
void emit(const Record& record) {
  function<decltype(fake_cupti_emit)>("fake_cupti_emit")(&record, sizeof(record));
}

void initialize_cuda() {
  const char* path = std::getenv("CUDA_INJECTION64_PATH");
  if (path == nullptr) return;
  void* library = ::dlopen(path, RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", ::dlerror());
    std::exit(99);
  }
  const auto start = reinterpret_cast<int (*)()>(::dlsym(library, "InitializeInjection"));
  if (start == nullptr || start() != 1) std::exit(98);
}

/// What NVTX does at a program's first range: a tool that takes it leaves markers.
bool nvtx_has_a_tool() {
  const char* path = std::getenv("NVTX_INJECTION64_PATH");
  void* library = path == nullptr ? nullptr : ::dlopen(path, RTLD_LAZY);
  if (library == nullptr) return false;
  using Entry = int (*)(const void* (*)(std::uint32_t));
  const auto start = reinterpret_cast<Entry>(::dlsym(library, "InitializeInjectionNvtx2"));
  return start != nullptr && start([](std::uint32_t) -> const void* { return nullptr; }) == 1;
}

void mark_range() {
  const auto now = function<decltype(fake_cupti_now)>("fake_cupti_now");
  for (const auto flag : {CUPTI_ACTIVITY_FLAG_MARKER_START, CUPTI_ACTIVITY_FLAG_MARKER_END}) {
    zenflow::testing::MarkerRecord record{};
    record.kind = CUPTI_ACTIVITY_KIND_MARKER;
    record.flags = flag;
    record.timestamp = now();
    record.id = 1;
    record.name = flag == CUPTI_ACTIVITY_FLAG_MARKER_START ? "epoch" : nullptr;
    record.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
    record.objectId.pt.processId = static_cast<std::uint32_t>(::getpid());
    record.objectId.pt.threadId = record.objectId.pt.processId;
    emit(record);
  }
}

void train() {
  using namespace zenflow::testing;
  const auto now = function<decltype(fake_cupti_now)>("fake_cupti_now");
  for (std::uint32_t i = 1; i <= 100; ++i) {
    const std::uint64_t call = now();
    emit(call_record({.correlation = i, .start = call, .end = now()}));
    const std::uint64_t start = now();
    emit(kernel_record({.correlation = i, .start = start, .end = now()}));
  }
  const std::uint64_t start = now();
  emit(copy_record({.correlation = 0, .start = start, .end = now(), .stream = 13}));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (const char* folder = std::getenv("ZENFLOW_CUDA_LIB_DIR"); folder != nullptr) {
    cupti = ::dlopen((std::filesystem::path(folder) / "libcupti.so.13").c_str(), RTLD_NOW);
  }
  if (what == "held" && cupti != nullptr) {
    function<decltype(fake_cupti_hold)>("fake_cupti_hold")();
  }
  if (what == "ranks") {  // two processes, each with CUDA of its own
    const pid_t other = ::fork();
    initialize_cuda();
    train();
    if (other != 0) ::waitpid(other, nullptr, 0);
    return 0;
  }
  if (what == "threads") {  // uses GPUs from threads that have ended
    const std::filesystem::path folder = std::getenv("ZENFLOW_CUDA_LIB_DIR");
    if (::dlopen((folder / "libcuda.so.1").c_str(), RTLD_NOW) == nullptr) return 96;
  }
  // NVTX may come first: PyTorch is imported, and names what it does, before it uses a GPU.
  const bool has_ranges = what == "ranges" && nvtx_has_a_tool();
  initialize_cuda();
  if (cupti != nullptr) train();
  if (has_ranges) mark_range();
  if (what == "forked") {  // a data loader: ends by exit, and by SIGTERM
    const pid_t exits = ::fork();
    if (exits == 0) std::exit(0);
    const pid_t waits = ::fork();
    if (waits == 0) {
      for (;;) ::pause();
    }
    ::kill(waits, SIGTERM);
    int status = 0;
    ::waitpid(exits, nullptr, 0);
    ::waitpid(waits, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM ? 0 : 97;
  }
  if (what == "terminated") {
    ::raise(SIGTERM);
    for (;;) ::pause();
  }
  if (what == "killed") ::raise(SIGKILL);
  if (what == "code") return 42;
  return 0;
}
