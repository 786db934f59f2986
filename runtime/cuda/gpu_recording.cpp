#include "runtime/cuda/gpu_recording.h"

#include <utility>

#include <fmt/format.h>

#include "runtime/gpu/driver.h"
#include "runtime/gpu/libraries.h"
#include "runtime/trace/cupti/activity_timeline.h"
#include "runtime/trace/cupti/cupti_session.h"
#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

/// CUPTI stays attached to the process until its end, so its library is never closed.
const CuptiApi& cupti(const LibraryFolders& folders) {
  static const DynamicLibrary& library = *new DynamicLibrary(
      DynamicLibrary::open(cupti_library(built_cuda_version() / 1000), folders));
  static const CuptiApi api = resolve_cupti([](const char* name) -> void* {
    return library.has(name) ? library.symbol<void*>(name) : nullptr;
  });
  return api;
}

class CuptiRecording final : public GpuRecording {
 public:
  explicit CuptiRecording(const LibraryFolders& folders) {
    CuptiOptions options;
    options.program = "zenflow-train";
    auto started = CuptiSession::start(
        cupti(folders), std::move(options),
        [this](const ActivityLog&, auto activities, const auto& strings) {
          activities_.insert(activities_.end(), activities.begin(), activities.end());
          strings_.insert(strings_.end(),
                          strings.begin() + static_cast<std::ptrdiff_t>(strings_.size()),
                          strings.end());
        });
    if (!started.session) {
      throw Error(ErrorKind::kDevice,
                  fmt::format("--trace: the GPU cannot be recorded: {}", started.untraced));
    }
    session_ = std::move(started.session);
  }

  [[nodiscard]] GpuTrace finish(Clock::time_point origin) override {
    ActivityLog log = session_->stop();
    if (!strings_.empty()) log.strings = std::move(strings_);
    log.activities = std::move(activities_);
    const auto nanoseconds =
        std::chrono::duration_cast<std::chrono::nanoseconds>(origin.time_since_epoch());
    MeasuredTimeline measured =
        measured_timeline(log, static_cast<std::uint64_t>(nanoseconds.count()));
    const TimelineReport& report = measured.report;
    GpuTrace trace{.timeline = std::move(measured.timeline),
                   .spans = report.kernels + report.copies + report.memsets + report.calls,
                   .overhead_seconds = static_cast<double>(report.overhead.count) * 1e-12,
                   .notes = log.notes};
    if (const std::uint64_t lost = report.dropped() + log.losses.dropped_by_cupti; lost > 0) {
      trace.notes.push_back(fmt::format("--trace: {} records of the GPU are missing", lost));
    }
    return trace;
  }

 private:
  // The parser's thread writes these until the session has stopped.
  std::vector<Activity> activities_;
  std::vector<std::string> strings_;
  std::unique_ptr<CuptiSession> session_;
};

}  // namespace

std::unique_ptr<GpuRecording> start_gpu_recording(const LibraryFolders& folders) {
  return std::make_unique<CuptiRecording>(folders);
}

}  // namespace zenflow::runtime
