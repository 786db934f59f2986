#include "runtime/trace/cupti/cupti_session.h"

#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "runtime/trace/cupti/activity_parser.h"
#include "runtime/trace/cupti/buffer_pool.h"
#include "runtime/trace/cupti/string_table.h"
#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

constexpr std::uint32_t kVersionThatTakesNoBuffer = 27;  // CUDA 12.9

/// What CUPTI's callbacks need. They are given no user data and may come at any time once they are
/// registered, after the end of a session too: the only object of this library that belongs to the
/// process. It is made by the first session and never destroyed.
struct Process {
  Process(const CuptiApi& functions, std::size_t buffers, std::size_t bytes)
      : api(functions), pool(buffers, bytes) {}

  CuptiApi api;
  BufferPool pool;
  bool may_refuse = false;                        // written before callbacks are registered
  std::atomic<std::uint64_t> dropped_records{0};  // relaxed: a count
};

// Release when set, acquire in callbacks: they see a whole Process.
std::atomic<Process*> process_state{nullptr};
std::atomic<bool> session_is_running{false};
std::atomic<bool> timestamp_is_registered{false};

extern "C" {

std::uint64_t CUPTIAPI zenflow_trace_timestamp() {
  return trace_clock();
}

void CUPTIAPI zenflow_buffer_requested(std::uint8_t** buffer, std::size_t* size,
                                       std::size_t* max_records) {
  Process& process = *process_state.load(std::memory_order_acquire);
  // Before CUDA 12.9, CUPTI crashes when it gets none.
  std::byte* const data = process.may_refuse ? process.pool.lend() : process.pool.lend_or_make();
  *buffer = reinterpret_cast<std::uint8_t*>(data);
  *size = data == nullptr ? 0 : process.pool.bytes();
  *max_records = 0;  // as many as fit
}

void CUPTIAPI zenflow_buffer_completed(CUcontext context, std::uint32_t stream,
                                       std::uint8_t* buffer, std::size_t /*size*/,
                                       std::size_t valid) {
  Process& process = *process_state.load(std::memory_order_acquire);
  // Holding no lock: CUPTI may wait in here for a thread that is in the other callback.
  std::size_t dropped = 0;
  if (process.api.dropped_records(context, stream, &dropped) == CUPTI_SUCCESS) {
    process.dropped_records.fetch_add(dropped, std::memory_order_relaxed);
  }
  if (buffer != nullptr) process.pool.take_back(reinterpret_cast<std::byte*>(buffer), valid);
}

/// cudaDeviceReset takes the contexts with it, and what has not been delivered of them.
void CUPTIAPI zenflow_before_reset(void*, CUpti_CallbackDomain, CUpti_CallbackId,
                                   const void* data) {
  if (static_cast<const CUpti_CallbackData*>(data)->callbackSite != CUPTI_API_ENTER) return;
  // Whether it succeeds shows in what is delivered; there is nobody to tell in here.
  static_cast<void>(process_state.load(std::memory_order_acquire)->api.flush_all(0));
}

}  // extern "C"

struct Kind {
  CUpti_ActivityKind kind;
  std::string_view name;
  bool low_overhead;  // recorded in that mode too; nothing is recorded if CUPTI refuses it
};

// CONCURRENT_KERNEL: KERNEL would run kernels one after the other.
constexpr std::array kKinds = {
    Kind{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "kernels", true},
    Kind{CUPTI_ACTIVITY_KIND_MEMCPY, "copies", true},
    Kind{CUPTI_ACTIVITY_KIND_MEMCPY2, "copies between GPUs", true},
    Kind{CUPTI_ACTIVITY_KIND_MEMSET, "memsets", true},
    Kind{CUPTI_ACTIVITY_KIND_RUNTIME, "runtime calls", false},
    Kind{CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, "synchronisations", false},
    Kind{CUPTI_ACTIVITY_KIND_CUDA_EVENT, "events", false},
    Kind{CUPTI_ACTIVITY_KIND_OVERHEAD, "overhead", false},
    Kind{CUPTI_ACTIVITY_KIND_MARKER, "NVTX ranges", false},
};

#if CUPTI_API_VERSION >= 23
/// Calls that launch nothing and that frameworks make all the time: each would cost a record.
constexpr std::array kQuietRuntimeCalls = {
    CUPTI_RUNTIME_TRACE_CBID_cudaGetLastError_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaPeekAtLastError_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaSetDevice_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaDeviceGetAttribute_v5000,
    CUPTI_RUNTIME_TRACE_CBID_cudaStreamIsCapturing_v10000,
};
/// Launches past the runtime, as Triton's.
constexpr std::array kDriverLaunches = {
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
};
#endif

/// What to do about it, for the results that users meet.
std::string_view advice(CUptiResult result) {
  switch (static_cast<int>(result)) {
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      return "; another tool holds CUPTI: Nsight, compute-sanitizer, a debugger or a profiler in "
             "this process";
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
      return "; the driver lets only administrators trace (NVreg_RestrictProfilingToAdminUsers)";
    case CUPTI_ERROR_UNKNOWN:
    case CUPTI_ERROR_NOT_INITIALIZED:
      return "; is there a driver that belongs to this CUDA?";
    default:
      return "";
  }
}

}  // namespace

std::uint64_t trace_clock() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

class CuptiSession::State {
 public:
  State(const CuptiApi& api, CuptiOptions options, ActivitySink sink)
      : api_(api), options_(std::move(options)), sink_(std::move(sink)) {
    facts_.process = static_cast<std::uint32_t>(::getpid());
    facts_.program = options_.program;
    facts_.low_overhead = options_.low_overhead;
  }

  ~State() {
    disable_kinds();  // nothing is left to disable unless the start failed half-way
    if (subscriber_) api_.unsubscribe(*subscriber_);
    session_is_running.store(false, std::memory_order_release);
  }

  /// Empty, or why not; the destructor takes back what was done.
  std::string begin();
  void end();
  void finish_parsing();

  const CuptiApi& api_;
  CuptiOptions options_;
  ActivitySink sink_;
  ActivityLog facts_;

 private:
  std::string failure(std::string_view what, CUptiResult result) const {
    return fmt::format("{}: {}{}", what, cupti_error_text(api_, result), advice(result));
  }
  void prepare_process();
  std::string register_callbacks();
  std::string enable_kinds();
  void choose_calls();
  void disable_kinds();
  void parse();
  void count_dropped();
  void note_failure(std::string_view what, CUptiResult result) {
    if (result != CUPTI_SUCCESS) facts_.notes.push_back(failure(what, result));
  }

  Process* process_ = nullptr;
  std::optional<CUpti_SubscriberHandle> subscriber_;
  std::vector<CUpti_ActivityKind> enabled_;
  StringTable strings_;         // the parser's
  RecordLosses parser_losses_;  // the parser's until it is joined, as is the next
  std::exception_ptr sink_failure_;
  RecordLosses losses_before_;  // the process's counters when the session began
  std::thread parser_;
};

void CuptiSession::State::prepare_process() {
  process_ = process_state.load(std::memory_order_acquire);
  if (process_ == nullptr) {
    process_ = std::make_unique<Process>(api_, options_.buffers, options_.buffer_bytes).release();
    process_->may_refuse = facts_.cupti_version >= kVersionThatTakesNoBuffer;
    process_state.store(process_, std::memory_order_release);
  }
  process_->pool.open();
  losses_before_.dropped_by_cupti = process_->dropped_records.load(std::memory_order_relaxed);
  losses_before_.refused_buffers = process_->pool.refused();
  losses_before_.emergency_buffers = process_->pool.made();
}

std::string CuptiSession::State::register_callbacks() {
  CUpti_SubscriberHandle subscriber{};
  if (const auto r = api_.subscribe(&subscriber, zenflow_before_reset, nullptr);
      r != CUPTI_SUCCESS) {
    return failure("cannot subscribe to CUPTI", r);
  }
  subscriber_ = subscriber;
  note_failure("records before a cudaDeviceReset may be lost",
               api_.enable_callback(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API,
                                    CUPTI_RUNTIME_TRACE_CBID_cudaDeviceReset_v3020));
  // Not at fault if refused: threads are then numbered by pthread_self, and CUPTI zeroes buffers.
  note_failure("threads are not numbered as the system does",
               api_.set_thread_id_type(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM));
  std::uint8_t yes = 1;
  std::size_t size = sizeof(yes);
  note_failure("CUPTI zeroes buffers itself",
               api_.set_attribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &yes));
  if (!timestamp_is_registered.load(std::memory_order_acquire)) {
    if (const auto r = api_.register_timestamp(zenflow_trace_timestamp); r != CUPTI_SUCCESS) {
      return failure("cannot give CUPTI the clock", r);
    }
    timestamp_is_registered.store(true, std::memory_order_release);
  }
  if (const auto r = api_.register_buffers(zenflow_buffer_requested, zenflow_buffer_completed);
      r != CUPTI_SUCCESS) {
    return failure("cannot give CUPTI buffers", r);
  }
  return "";
}

std::string CuptiSession::State::enable_kinds() {
  for (const Kind& kind : kKinds) {
    if (options_.low_overhead && !kind.low_overhead) continue;
    const CUptiResult result = api_.enable(kind.kind);
    if (result == CUPTI_SUCCESS) {
      enabled_.push_back(kind.kind);
      continue;
    }
    const std::string what = failure(fmt::format("cannot record {}", kind.name), result);
    if (kind.low_overhead) return what;
    facts_.notes.push_back(what);
  }
  if (!options_.low_overhead) choose_calls();
  return "";
}

void CuptiSession::State::choose_calls() {
#if CUPTI_API_VERSION >= 23
  if (api_.enable_runtime_call != nullptr) {
    for (const auto call : kQuietRuntimeCalls) {
      note_failure("a frequent call is recorded too", api_.enable_runtime_call(call, 0));
    }
  }
  if (api_.enable_driver_call != nullptr) {
    for (const auto call : kDriverLaunches) {
      note_failure("cannot record a launch by the driver", api_.enable_driver_call(call, 1));
    }
    return;
  }
#endif
  facts_.notes.emplace_back(
      "launches past the CUDA runtime are not recorded: CUPTI is older than 12.5");
}

std::string CuptiSession::State::begin() {
  if (const auto r = api_.get_version(&facts_.cupti_version); r != CUPTI_SUCCESS) {
    return failure("cannot ask CUPTI for its version", r);
  }
  prepare_process();
  std::string reason = register_callbacks();
  facts_.session_start = trace_clock();
  if (reason.empty()) reason = enable_kinds();
  if (!reason.empty()) return reason;
  parser_ = std::thread([this] { parse(); });
  return "";
}

void CuptiSession::State::disable_kinds() {
  for (const CUpti_ActivityKind kind : enabled_) {
    note_failure("cannot end recording", api_.disable(kind));
  }
#if CUPTI_API_VERSION >= 23
  if (!enabled_.empty() && !options_.low_overhead && api_.enable_driver_call != nullptr) {
    for (const auto call : kDriverLaunches) api_.enable_driver_call(call, 0);
  }
#endif
  enabled_.clear();
}

void CuptiSession::State::parse() {
  ActivityParser parser(api_, facts_.cupti_version, strings_);
  std::vector<Activity> activities;
  BufferPool& pool = process_->pool;
  while (BufferPool::Buffer* buffer = pool.next_filled()) {
    if (!sink_failure_) {
      try {
        activities.clear();
        parser.parse(BufferPool::records(*buffer), activities);
        sink_(facts_, activities, strings_.strings());
      } catch (...) {  // rethrown by stop(); buffers go on circulating
        sink_failure_ = std::current_exception();
      }
    }
    pool.recycle(*buffer);
  }
  parser_losses_ = parser.losses();
}

void CuptiSession::State::count_dropped() {
  std::size_t dropped = 0;
  if (api_.dropped_records(nullptr, 0, &dropped) == CUPTI_SUCCESS) {
    process_->dropped_records.fetch_add(dropped, std::memory_order_relaxed);
  }
}

void CuptiSession::State::end() {
  if (options_.synchronize) options_.synchronize();
  note_failure("flush of completed buffers", api_.flush_all(0));
  disable_kinds();
  note_failure("flush of all buffers", api_.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
  count_dropped();
  facts_.session_end = trace_clock();
}

void CuptiSession::State::finish_parsing() {
  process_->pool.close();
  parser_.join();
  RecordLosses& losses = facts_.losses;
  losses = parser_losses_;
  losses.dropped_by_cupti =
      process_->dropped_records.load(std::memory_order_relaxed) - losses_before_.dropped_by_cupti;
  losses.refused_buffers = process_->pool.refused() - losses_before_.refused_buffers;
  losses.emergency_buffers = process_->pool.made() - losses_before_.emergency_buffers;
  if (sink_failure_) std::rethrow_exception(std::exchange(sink_failure_, nullptr));
}

CuptiSession::CuptiSession(std::unique_ptr<State> state) : state_(std::move(state)) {}

CuptiSession::Started CuptiSession::start(const CuptiApi& api, CuptiOptions options,
                                          ActivitySink sink) {
  if (session_is_running.exchange(true, std::memory_order_acq_rel)) {
    throw Error(ErrorKind::kRuntime, "a CUPTI session is running in this process");
  }
  auto state = std::make_unique<State>(api, std::move(options), std::move(sink));
  if (std::string reason = state->begin(); !reason.empty()) return {nullptr, std::move(reason)};
  return {std::unique_ptr<CuptiSession>(new CuptiSession(std::move(state))), ""};
}

CuptiSession::~CuptiSession() {
  if (!state_) return;
  try {
    static_cast<void>(stop());
  } catch (...) {  // a destructor cannot say it
  }
}

const ActivityLog& CuptiSession::facts() const {
  return state_->facts_;
}

ActivityLog CuptiSession::stop() {
  const std::unique_ptr<State> state = std::move(state_);
  state->end();
  state->finish_parsing();
  return std::move(state->facts_);
}

}  // namespace zenflow::runtime
