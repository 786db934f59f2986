// libzenflow_inject.so: the CUDA driver loads it into any program whose environment names it in
// CUDA_INJECTION64_PATH, and calls InitializeInjection from cuInit. It records the program's GPU
// activity into a file of the process (activity_file.h), until it exits or is told to end.
//
// ZENFLOW_RECORD_OUT           prefix of the file's name; ".<process id>.zfrec" is appended
// ZENFLOW_RECORD_LOW_OVERHEAD  "1": kernels, copies and memsets only
// ZENFLOW_RECORD_BUFFERS       how many buffers of 4 MiB
// ZENFLOW_CUDA_LIB_DIR, CUDA_HOME, VIRTUAL_ENV: where CUPTI is looked for, as for all GPU libraries
//
// NVTX hands a program's ranges to the library that NVTX_INJECTION64_PATH names. That is this one
// too, and it passes NVTX on to the very CUPTI that it records with.
//
// It must not break what it is loaded into: no exception leaves it, a failure is one line on
// standard error, a handler of the program's is not replaced, and a forked child (a data loader) is
// neither recorded nor kept from ending.
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include "runtime/gpu/dynamic_library.h"
#include "runtime/gpu/libraries.h"
#include "runtime/trace/cupti/activity_file.h"
#include "runtime/trace/cupti/cupti_session.h"
#include "sim/base/error.h"

namespace zenflow::tools {
namespace {

namespace fs = std::filesystem;
using runtime::ActivityFileWriter;
using runtime::ActivityLog;
using runtime::CuptiSession;

void complain(const std::string& what) {
  // One write, so that lines of several processes do not mix; a closed stderr is not our affair.
  const std::string line = fmt::format("zenflow-inject[{}]: {}\n", ::getpid(), what);
  const ssize_t ignored = ::write(STDERR_FILENO, line.data(), line.size());
  static_cast<void>(ignored);
}

std::optional<std::string> variable(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return std::string(text);
}

std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  while (!text.empty() && text.back() == '\0') text.pop_back();
  for (char& c : text) c = c == '\0' ? ' ' : c;
  return text;
}

/// A CUPTI that the program has loaded (PyTorch brings its own) goes first: two in one process
/// would each hold half of the driver. Throws Error(kDevice) if there is none.
runtime::DynamicLibrary open_cupti() {
  const runtime::LibraryName name = runtime::cupti_library(runtime::built_cuda_version() / 1000);
  if (auto loaded = runtime::DynamicLibrary::loaded(name)) return std::move(*loaded);
  std::map<std::string, std::string> environment;
  for (const char* folder : {"ZENFLOW_CUDA_LIB_DIR", "CUDA_HOME", "VIRTUAL_ENV"}) {
    if (auto text = variable(folder)) environment.emplace(folder, std::move(*text));
  }
  return runtime::DynamicLibrary::open(name, runtime::library_folders(environment));
}

/// The driver's functions that waiting takes, from the libcuda that the program has loaded. Types
/// are those of cuda.h; linking it would make every program need the driver.
class Driver {
 public:
  Driver() : library_(::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD)) {}
  ~Driver() {
    if (library_ != nullptr) ::dlclose(library_);
  }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  /// 0 if it succeeds; a function that is not there fails.
  template <class... Arguments>
  int call(const char* function, Arguments... arguments) const {
    if (library_ == nullptr) return -1;
    const auto found = reinterpret_cast<int (*)(Arguments...)>(::dlsym(library_, function));
    return found == nullptr ? -1 : found(arguments...);
  }

 private:
  void* library_;
};

/// Waits for every GPU that the program uses: the thread that ends a program need not be one that
/// uses a GPU, and then has no context. Only the primary contexts, which are the CUDA runtime's,
/// and the thread's own are known.
void synchronize() {
  const Driver driver;
  driver.call("cuCtxSynchronize");  // harmless without a context
  int devices = 0;
  if (driver.call("cuDeviceGetCount", &devices) != 0) return;
  for (int number = 0; number < devices; ++number) {
    int device = 0;
    unsigned flags = 0;
    int is_active = 0;
    void* context = nullptr;
    if (driver.call("cuDeviceGet", &device, number) != 0) continue;
    // One that is not active would be made by asking for it.
    const int state = driver.call("cuDevicePrimaryCtxGetState", device, &flags, &is_active);
    if (state != 0 || is_active == 0) continue;
    if (driver.call("cuDevicePrimaryCtxRetain", &context, device) != 0) continue;
    if (driver.call("cuCtxPushCurrent_v2", context) == 0) {
      driver.call("cuCtxSynchronize");
      driver.call("cuCtxPopCurrent_v2", &context);
    }
    driver.call("cuDevicePrimaryCtxRelease_v2", device);
  }
}

/// Threads that are started while this lives take no signals: those are for the program's threads.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

/// The injection of the process that loaded the library. Never destroyed: the parser's thread,
/// CUPTI's callbacks and the exit handler may each come last.
class Injection {
 public:
  /// Throws Error if not even the reason for not recording can be written.
  explicit Injection(const std::string& prefix);
  /// Ends the recording, once. `wait`: for the GPU first.
  void finish(bool wait);
  [[nodiscard]] bool is_ours() const { return owner_ == ::getpid(); }

 private:
  void create_file(const std::string& prefix);
  std::string begin_session(const std::string& program);

  pid_t owner_ = ::getpid();
  std::optional<runtime::DynamicLibrary> cupti_;
  runtime::CuptiApi api_;
  bool wait_ = true;  // written before the session's stop, which reads it
  std::unique_ptr<ActivityFileWriter> file_;
  std::once_flag begun_;
  std::unique_ptr<CuptiSession> session_;
  std::once_flag finished_;
};

void Injection::create_file(const std::string& prefix) {
  // A process number comes again after an exec, or when numbers run out.
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries; ++i) {
    const std::string again = i == 0 ? "" : fmt::format("-{}", i);
    const fs::path path = fmt::format("{}.{}{}.zfrec", prefix, owner_, again);
    if (fs::exists(path)) continue;
    file_ = std::make_unique<ActivityFileWriter>(path);
    return;
  }
  throw Error(ErrorKind::kRuntime, prefix + ": too many recordings of this process number");
}

/// Empty, or why nothing is recorded.
std::string Injection::begin_session(const std::string& program) {
  try {
    cupti_.emplace(open_cupti());
    api_ = runtime::resolve_cupti([this](const char* name) -> void* {
      return cupti_->has(name) ? cupti_->symbol<void*>(name) : nullptr;
    });
  } catch (const Error& error) {
    return error.what();
  }
  runtime::CuptiOptions options;
  options.program = program;
  options.low_overhead = variable("ZENFLOW_RECORD_LOW_OVERHEAD") == "1";
  if (const auto buffers = variable("ZENFLOW_RECORD_BUFFERS")) {
    options.buffers = std::stoul(*buffers);
  }
  options.synchronize = [this] {
    if (wait_) synchronize();
  };
  const auto sink = [this](const ActivityLog& facts, auto activities, const auto& strings) {
    std::call_once(begun_, [&] { file_->begin(facts); });
    file_->append(activities, strings, runtime::trace_clock());
  };
  const SignalsBlocked blocked;
  auto started = CuptiSession::start(api_, std::move(options), sink);
  session_ = std::move(started.session);
  // Now, not with the first buffer: of a process that is killed before, this is what is left.
  if (session_) std::call_once(begun_, [this] { file_->begin(session_->facts()); });
  return started.untraced;
}

Injection::Injection(const std::string& prefix) {
  create_file(prefix);
  const std::string program = command_line();
  const std::string untraced = begin_session(program);
  if (untraced.empty()) return;
  complain("not traced: " + untraced);
  ActivityLog log;
  log.process = static_cast<std::uint32_t>(owner_);
  log.program = program;
  log.untraced = untraced;
  file_->begin(log);
  file_->finish(log);
}

void Injection::finish(bool wait) {
  if (!is_ours() || !session_) return;
  std::call_once(finished_, [&] {
    try {
      wait_ = wait;
      file_->finish(session_->stop());
    } catch (const std::exception& error) {
      complain(fmt::format("the recording ends early: {}", error.what()));
    }
  });
}

// What handlers of signals and of the exit need; both are given no data.
std::atomic<Injection*> injection{nullptr};
std::atomic<int> signal_to_end_by{0};
sem_t signal_came;

/// For programs that do not handle the signal. The flush is made by a thread, since next to nothing
/// may be called in here. SA_RESETHAND: a second signal ends the program at once.
extern "C" void zenflow_end_on_signal(int number) {
  const Injection* ours = injection.load(std::memory_order_acquire);
  if (ours == nullptr || !ours->is_ours()) {  // forked: the thread is in the parent
    ::raise(number);  // delivered on return, by then with its default action
    return;
  }
  const int error = errno;
  signal_to_end_by.store(number, std::memory_order_relaxed);
  ::sem_post(&signal_came);
  errno = error;
}

extern "C" void zenflow_end_at_exit() {
  if (Injection* ours = injection.load(std::memory_order_acquire)) ours->finish(true);
}

void end_when_signalled() {
  while (::sem_wait(&signal_came) != 0) {  // EINTR
  }
  injection.load(std::memory_order_acquire)->finish(false);  // a GPU that hangs is not waited for
  ::kill(::getpid(), signal_to_end_by.load(std::memory_order_relaxed));
}

void watch_signals() {
  bool watched = false;
  for (const int number : {SIGTERM, SIGINT}) {
    struct sigaction present {};
    if (::sigaction(number, nullptr, &present) != 0) continue;
    const bool is_default = (present.sa_flags & SA_SIGINFO) == 0 && present.sa_handler == SIG_DFL;
    if (!is_default) continue;  // the program's own; it exits by itself, or ignores the signal
    struct sigaction ours {};
    ours.sa_handler = zenflow_end_on_signal;
    ours.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
    watched = ::sigaction(number, &ours, nullptr) == 0 || watched;
  }
  if (!watched) return;
  const SignalsBlocked blocked;
  std::thread(end_when_signalled).detach();
}

void initialize() {
  if (injection.load(std::memory_order_acquire) != nullptr) return;
  const auto prefix = variable("ZENFLOW_RECORD_OUT");
  if (!prefix) {
    complain("not traced: ZENFLOW_RECORD_OUT is not set");
    return;
  }
  ::sem_init(&signal_came, 0, 0);
  injection.store(std::make_unique<Injection>(*prefix).release(), std::memory_order_release);
  if (std::atexit(zenflow_end_at_exit) != 0) complain("the end of the recording may be missing");
  watch_signals();
}

/// The type of NVTX's function that finds its tables; not called here.
using NvtxExportTable = const void* (*)(std::uint32_t);

/// Hands NVTX on to CUPTI's function `entry`. NVTX takes 0 for "no tool" and asks no more.
int pass_nvtx_on(const char* entry, NvtxExportTable table) {
  try {
    const runtime::DynamicLibrary cupti = open_cupti();  // stays loaded without its owner
    return cupti.symbol<int (*)(NvtxExportTable)>(entry)(table);
  } catch (const std::exception& error) {
    complain(fmt::format("NVTX ranges are not recorded: {}", error.what()));
  } catch (...) {
    complain("NVTX ranges are not recorded: unknown failure");
  }
  return 0;
}

}  // namespace
}  // namespace zenflow::tools

/// Called by the CUDA driver. Not 1 means failure; the program is to run in any case.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  try {
    zenflow::tools::initialize();
  } catch (const std::exception& error) {
    zenflow::tools::complain(fmt::format("not traced: {}", error.what()));
  } catch (...) {
    zenflow::tools::complain("not traced: unknown failure");
  }
  return 1;
}

/// Called by NVTX 3, which is in the program's own code.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    zenflow::tools::NvtxExportTable table) {
  return zenflow::tools::pass_nvtx_on("InitializeInjectionNvtx2", table);
}

/// Called by NVTX 2, a library (libnvToolsExt).
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx(
    zenflow::tools::NvtxExportTable table) {
  return zenflow::tools::pass_nvtx_on("InitializeInjectionNvtx", table);
}
