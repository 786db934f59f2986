/// Constants of a hardware profile from live runs: each with what it was fitted to.
///
///   forward, backward    (F + n h) / (e P) + A / (a P) + T / (u W) + m l      e, a, u
///   other device work    S / (s W) + G / (g W) + m l                          s, g, l
///   copies               latency + bytes / bandwidth                          both, by direction
///   CPU update           launch + bytes / rate(cores)                         both; of recordings
///                        with several numbers of optimizer threads adam_half_cores too
///   CPU sums             bytes / rate(cores)                                  rate
///   sums on the device   other device work; on the host device a sum on one core
///   idle after the norm  step_gap
///   collectives of ranks transfer_cost.h's to an owner and from there; gpu_link's both
///
/// with F FLOPs and n number of matrix products, A FLOPs of attention, T, S, G bytes of
/// element-wise chains, streams and column kernels, m kernels (gpu_cost.h, live_work.h). W is the
/// largest of the fitted rates, where one is above the profile's memory_bandwidth: a device with
/// caches. l is fitted to the second row; h keeps the base profile's value.
///
/// Where the device is a GPU, copies, updates and sums that ran concurrently are then fitted
/// again, with DRAM's and the link's capacity (live_sharing.h), for their isolated rates.
#pragma once

#include <string>
#include <vector>

#include "sim/calibrate/fitted_profile.h"
#include "sim/calibrate/live_run.h"

namespace zenflow::sim {

struct LiveFit {
  HardwareProfile profile;
  std::vector<FittedNumber> numbers;
  /// By recording: threads of other programs that wanted a core all the time (isolated_rates.h).
  /// Empty where rates are as recorded.
  std::vector<double> other_threads{};
  /// By recording, likewise: seconds a window in which forward and backward of its first half,
  /// in which an update is concurrent, take longer than those of its second, beyond contention
  /// for cores. It is in the rates, too, as if all steps had their part of it. 0 for windows of one
  /// step, which do not show it.
  std::vector<double> update_slowdown{};
};

/// Recordings of one machine. The profile of the first job is the base. Where the device is the
/// host, rates are isolated ones (isolated_rates.h): contention for its cores is the simulation's.
/// Throws Error(kInput) if there is none, or if a timeline is not of its job and schedule.
/// Precondition: all have the same base profile.
[[nodiscard]] LiveFit fit_live(const std::vector<LiveRecording>& recordings);

/// The same with contention for cores left in the rates.
[[nodiscard]] LiveFit fit_as_recorded(const std::vector<LiveRecording>& recordings);

/// Adds the base profile's other numbers, which recordings of zenflow-train do not identify, with
/// the reason.
void add_unidentified(const HardwareProfile& base, std::vector<FittedNumber>& numbers);

[[nodiscard]] inline std::string fitted_profile_text(const Node& base, const LiveFit& fit,
                                                     const std::string& name,
                                                     const std::string& origin,
                                                     const std::vector<std::string>& remarks = {}) {
  return fitted_profile_text(base, fit.numbers, name, origin, remarks);
}

}  // namespace zenflow::sim
