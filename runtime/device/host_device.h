/// The device that every machine has: separate host memory, threads for streams, copies with the
/// accounting, and on request the speed, of a PCIe link.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/device/host_stream.h"
#include "runtime/device/link_pacer.h"
#include "runtime/device/memory_ledger.h"
#include "sim/base/units.h"

namespace zenflow::runtime {

struct HostDeviceSettings {
  std::optional<BytesPerSecond> link_bandwidth{};  ///< per direction; none: as fast as memory is
  /// Once true, copies take no longer than memory does: nobody waits for a slow link to end a run.
  /// Asked now and then by every stream's thread that waits for the link.
  std::function<bool()> link_released{};
  std::optional<Bytes> memory{};            ///< capacity of the "device"; none: unlimited
  Jitter jitter{};                          ///< for tests
  std::vector<std::string> lazy_streams{};  ///< names: these are, for tests
  /// What every byte of new memory holds: 0xFF, for tests, makes all that nobody wrote a NaN, or an
  /// index out of range.
  std::uint8_t fill = 0;
};

class HostDevice final : public Device {
 public:
  HostDevice(HostDeviceSettings settings, Recorder& recorder);
  ~HostDevice() override = default;

  [[nodiscard]] std::string_view name() const override { return "host"; }
  [[nodiscard]] Buffer allocate(MemoryKind kind, std::size_t bytes,
                                std::string_view purpose) override;
  [[nodiscard]] std::unique_ptr<Stream> make_stream(std::string_view name) override;
  [[nodiscard]] std::shared_ptr<Signal> make_signal() override;
  [[nodiscard]] TrafficCount traffic() const override { return traffic_.count(); }
  [[nodiscard]] MemoryUse memory_use(MemoryKind kind) const override { return ledger(kind).most(); }
  void expect(Stream&, std::size_t, std::size_t) override {}
  void expect_square_sums(Stream&, std::size_t, std::size_t) override {}
  /// Whether a copy took less time than the link's bandwidth says: `link_released` was true.
  [[nodiscard]] bool has_released_link() const override { return has_released_link_; }
  void copy(Stream& stream, void* to, const void* from, std::size_t bytes, CopyDirection direction,
            Traffic kind, Label label) override;

  void run(Stream& stream, Label label, std::function<void()> work) override;
  void clear(Stream& stream, void* values, std::size_t bytes, Label label) override;
  void square_sums(Stream& stream, ElementType type, std::span<const SquareSum> arrays,
                   Label label) override;
  void column_norms(Stream& stream, ElementType type, const DeviceMatrix& matrix, NormKind kind,
                    float* norms, Label label) override;
  void gather_columns(Stream& stream, ElementType type, const DeviceMatrix& matrix,
                      const std::uint32_t* column, std::size_t n, void* out, Label label) override;
  void scatter_columns(Stream& stream, ElementType type, const void* in,
                       const std::uint32_t* column, std::size_t n, const DeviceMatrix& matrix,
                       Label label) override;
  void update_columns(Stream& stream, ElementType type, const kernels::AdamWSettings& settings,
                      const kernels::ColumnCorrections& corrections, float gradient_scale,
                      const void* gradient, const SelectedColumns& selected,
                      const DeviceMatrix& weights, Label label) override;
  void accumulate(Stream& stream, ElementType type, const void* gradient, float scale,
                  std::size_t n, bool first, float* sum, Label label) override;

 private:
  [[nodiscard]] MemoryLedger& ledger(MemoryKind kind) const {
    return *ledgers_.at(static_cast<std::size_t>(kind));
  }
  /// Occupies the link for the copy's time, `ready` or later, and returns when the copy ends.
  Clock::time_point occupy_link(CopyDirection direction, std::size_t bytes,
                                Clock::time_point ready);
  [[nodiscard]] Clock::duration time_on_link(std::size_t bytes) const;
  /// Sleeps until then, or until the link is released: false.
  bool wait_for_link(Clock::time_point end);
  void leave_link(CopyDirection direction, Clock::time_point end, bool has_slept);

  HostDeviceSettings settings_;
  Recorder& recorder_;
  /// By MemoryKind. Shared with the buffers' deleters, which outlive the device.
  std::array<std::shared_ptr<MemoryLedger>, 2> ledgers_{std::make_shared<MemoryLedger>(),
                                                        std::make_shared<MemoryLedger>()};
  TrafficLedger traffic_;
  std::mutex mutex_;                 // guards link_
  std::array<LinkPacer, 2> link_{};  ///< by direction
  std::uint64_t streams_made_ = 0;
  std::atomic<bool> has_released_link_{false};
};

}  // namespace zenflow::runtime
