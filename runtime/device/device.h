/// The device that trains: memory, in-order streams, events, counted copies, and the kernels of the
/// offload engine. One engine runs on every implementation; on the host, streams are threads.
///
/// Rules that keep an asynchronous device correct, and that the host device obeys too:
///  * nothing enqueued has happened until an event recorded after it has completed;
///  * streams run independently of each other; order between them comes from events alone;
///  * every pointer given to a stream stays valid until the work has completed;
///  * a stream belongs to one enqueuing thread at a time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "kernels/adamw/adamw.h"
#include "runtime/model_config/parameters.h"
#include "runtime/trace/copy.h"
#include "runtime/trace/recorder.h"

namespace zenflow::runtime {

enum class MemoryKind : std::uint8_t {
  kDevice,
  kPinnedHost,  ///< page-locked: copies to and from it are asynchronous
};

/// Owns memory; moves only.
class Buffer {
 public:
  Buffer() = default;
  Buffer(void* address, std::size_t bytes, std::function<void(void*)> release)
      : address_(address, std::move(release)), bytes_(bytes) {}

  template <class T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(address_.get());
  }
  [[nodiscard]] std::byte* data() const { return as<std::byte>(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] explicit operator bool() const { return address_ != nullptr; }

 private:
  std::unique_ptr<void, std::function<void(void*)>> address_{nullptr, [](void*) {}};
  std::size_t bytes_ = 0;
};

/// Bytes over the link since the device was made, by kind.
struct TrafficCount {
  std::array<std::uint64_t, kTrafficKinds> h2d{};
  std::array<std::uint64_t, kTrafficKinds> d2h{};
};

/// What crossed the link between two counts.
[[nodiscard]] TrafficCount difference(const TrafficCount& after, const TrafficCount& before);

/// Most bytes held at once, and what held them then.
struct MemoryUse {
  std::uint64_t peak = 0;
  std::uint64_t allocations = 0;  ///< so far: on a GPU each one waits for all that it does
  std::map<std::string, std::uint64_t> by_purpose;
};

/// How an operation appears in a trace.
struct Label {
  Operation operation = Operation::kUnknown;
  std::int64_t step = -1;
};

/// Completion of what a stream had been given when the event was recorded. Copies share it.
class Event {
 public:
  class State {
   public:
    virtual ~State() = default;
    virtual void wait() = 0;  ///< blocks the calling thread
    [[nodiscard]] virtual bool complete() const = 0;
  };

  Event() = default;  ///< complete
  explicit Event(std::shared_ptr<State> state) : state_(std::move(state)) {}

  /// Rethrows what failed in the stream up to the event.
  void wait() const {
    if (state_) state_->wait();
  }
  [[nodiscard]] bool complete() const { return !state_ || state_->complete(); }
  [[nodiscard]] State* state() const { return state_.get(); }

 private:
  std::shared_ptr<State> state_;
};

/// An event that host code completes, so that streams can wait for threads.
/// One that is destroyed unset fails its waiters: nobody waits for a thread that gave up.
class Signal {
 public:
  virtual ~Signal() = default;
  [[nodiscard]] virtual Event event() const = 0;
  virtual void set() = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;
  [[nodiscard]] virtual Event record() = 0;
  /// Later work of this stream starts after `event`; `cause` names the wait in a trace.
  virtual void wait(const Event& event, WaitCause cause) = 0;
};

enum class NormKind : std::uint8_t { kL1, kL2 };

/// A row-major matrix of weights or gradients on the device; columns contiguous.
struct DeviceMatrix {
  void* values;
  std::size_t rows;
  std::size_t columns;
};

/// Selected columns: fp32 weights and moments, [rows, columns] each, row-major, on the device.
struct SelectedColumns {
  const std::uint32_t* column;  ///< [columns], which column of the full matrix; null: all in order
  std::size_t columns;
  kernels::AdamWState<float, float> state;
};

/// Where the sum of squares of n elements goes; not finite if an element is not.
struct SquareSum {
  const void* values;
  std::size_t n;
  double* sum;
};

/// What a training step reads back or is given in between its copies of gradients and weights: the
/// gradients' norm, the loss, bias corrections, tokens.
inline constexpr std::size_t kMappedBytes = 256 * 1024;
[[nodiscard]] constexpr bool is_mapped(Traffic kind, std::size_t bytes) {
  return kind == Traffic::kControl && bytes <= kMappedBytes;
}

class Device {
 public:
  virtual ~Device() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;
  /// Throws Error(kInfeasible) if the device has not that much left, saying what holds the rest.
  [[nodiscard]] virtual Buffer allocate(MemoryKind kind, std::size_t bytes,
                                        std::string_view purpose) = 0;
  [[nodiscard]] virtual std::unique_ptr<Stream> make_stream(std::string_view name) = 0;
  [[nodiscard]] virtual std::shared_ptr<Signal> make_signal() = 0;
  [[nodiscard]] virtual TrafficCount traffic() const = 0;
  [[nodiscard]] virtual MemoryUse memory_use(MemoryKind kind) const = 0;
  /// Kernels on `stream` will be given matrices of this shape: what memory they need beside their
  /// arguments is allocated now. Otherwise they allocate it, and wait. Throws as `allocate`.
  virtual void expect(Stream& stream, std::size_t rows, std::size_t columns) = 0;
  /// The same for `square_sums` of arrays that together have at most so many elements, in so many
  /// arrays.
  virtual void expect_square_sums(Stream& stream, std::size_t elements, std::size_t arrays) = 0;

  /// The recorder has what streams have done so far, and what spans are kept of it: always, of a
  /// device whose streams say so themselves; else until the next call. Waits for nothing. By the
  /// training thread.
  virtual void collect_times() {}
  /// The same of all operations that such a device's streams have been given so far: waits for
  /// them.
  virtual void collect_all_times() {}

  /// Whether a copy gave up waiting for an artificially slow link, because the run is to stop.
  [[nodiscard]] virtual bool has_released_link() const { return false; }

  /// Copies of kControl up to kMappedBytes do not wait for other copies in their direction: no
  /// copy engine carries them (kernels/mapped_copy). Others are carried one after the other.
  virtual void copy(Stream& stream, void* to, const void* from, std::size_t bytes,
                    CopyDirection direction, Traffic kind, Label label) = 0;

  /// Runs `work` on the host in the stream's order, on memory of the device. Only where that is the
  /// host's: elsewhere Error(kInput).
  virtual void run(Stream& stream, Label label, std::function<void()> work) = 0;

  // Kernels; every pointer is to device memory.
  /// Sets `bytes` bytes to 0.
  virtual void clear(Stream& stream, void* values, std::size_t bytes, Label label) = 0;
  /// Sums of squares of several arrays of `type`, together.
  virtual void square_sums(Stream& stream, ElementType type, std::span<const SquareSum> arrays,
                           Label label) = 0;
  /// norms[c] of every column.
  virtual void column_norms(Stream& stream, ElementType type, const DeviceMatrix& matrix,
                            NormKind kind, float* norms, Label label) = 0;
  /// out[rows, n] = columns `column[0..n)` of the matrix; all of it, in order, if `column` is null.
  virtual void gather_columns(Stream& stream, ElementType type, const DeviceMatrix& matrix,
                              const std::uint32_t* column, std::size_t n, void* out,
                              Label label) = 0;
  /// The reverse: columns `column[0..n)` of the matrix = in[rows, n]; null as above.
  virtual void scatter_columns(Stream& stream, ElementType type, const void* in,
                               const std::uint32_t* column, std::size_t n,
                               const DeviceMatrix& matrix, Label label) = 0;
  /// One AdamW step of the selected columns; writes the new weights into `weights`.
  /// `gradient` is [weights.rows, selected.columns] of `type`.
  virtual void update_columns(Stream& stream, ElementType type,
                              const kernels::AdamWSettings& settings,
                              const kernels::ColumnCorrections& corrections, float gradient_scale,
                              const void* gradient, const SelectedColumns& selected,
                              const DeviceMatrix& weights, Label label) = 0;
  /// sum[n] (fp32) += scale * gradient[n], or = if `first`.
  virtual void accumulate(Stream& stream, ElementType type, const void* gradient, float scale,
                          std::size_t n, bool first, float* sum, Label label) = 0;
};

}  // namespace zenflow::runtime
