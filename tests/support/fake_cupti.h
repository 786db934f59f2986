/// A CUPTI without a GPU: the functions of cupti.h that the recorder calls, with what is known of
/// the real one's manners. Linked into tests, or built as a libcupti of its own.
///
/// It keeps a lock of its own while it calls back, as CUPTI does: a recorder that holds a lock of
/// its own while calling CUPTI dead-locks here too, or is reported by ThreadSanitizer. It looks
/// whether buffers are aligned, zeroed and lent once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <cupti.h>

namespace zenflow::testing {

struct FakeCuptiManners {
  std::uint32_t version = 130001;
  std::map<std::string, CUptiResult> results{};  ///< by function; what is missing succeeds
  std::map<int, CUptiResult> enable_results{};   ///< by kind
  bool reversed = false;                         ///< delivers the youngest buffer first
  bool own_thread = true;  ///< delivers from a thread of its own, else from the flushing one
  std::size_t buffer_use = SIZE_MAX;  ///< takes a buffer to be full at so many bytes
  std::size_t hold_back = 0;  ///< completed buffers are delivered once there are more than these
  std::size_t dropped_at_end = 0;  ///< losses that a forced flush brings up, after all buffers
};

/// What it has seen. Counts are since `fake_cupti_reset`, but `timestamp_registrations`.
struct FakeCuptiSeen {
  int timestamp_registrations = 0;  ///< in this process
  int subscribers = 0;              ///< now
  std::set<int> enabled;            ///< kinds, now
  int buffers_requested = 0;
  int buffers_refused = 0;
  int misaligned_buffers = 0;
  int unzeroed_buffers = 0;
  int buffers_lent_twice = 0;
  std::set<std::uint32_t> quiet_runtime_calls;
  std::set<std::uint32_t> driver_calls;
};

/// New manners, nothing seen. No session may be running.
void fake_cupti_reset(FakeCuptiManners manners = {});
[[nodiscard]] FakeCuptiSeen fake_cupti_seen();

}  // namespace zenflow::testing

extern "C" {
/// The calling thread leaves a record, if its kind is enabled.
void fake_cupti_emit(const void* record, std::size_t size);
/// What the callback, or CUPTI's own clock, says.
std::uint64_t fake_cupti_now();
/// cudaDeviceReset is entered.
void fake_cupti_device_reset();
/// Another tool holds CUPTI.
void fake_cupti_hold();
/// NVTX hands its tables over here.
int InitializeInjectionNvtx2(const void* (*table)(std::uint32_t));
}
