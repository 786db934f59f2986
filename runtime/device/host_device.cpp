#include "runtime/device/host_device.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kernels/accumulate/accumulate.h"
#include "kernels/column_norm/column_norm.h"
#include "kernels/columns/columns.h"
#include "kernels/square_sum/square_sum.h"
#include "runtime/device/element_view.h"
#include "sim/base/error.h"
#include "sim/base/stop.h"

namespace zenflow::runtime {
namespace {

using kernels::Bf16;
using kernels::MatrixView;

// A cache line, and what AVX-512 likes.
constexpr std::align_val_t kAlignment{64};
// How often somebody who waits for the link asks whether it was released: seldom enough to cost
// nothing, often enough that nobody who ends a run notices.
constexpr std::chrono::milliseconds kAskLink{20};

/// For gigabytes this takes seconds: it asks in between whether to stop.
void fill(std::span<std::byte> memory, int value) {
  constexpr std::size_t kPiece = std::size_t{64} << 20U;
  while (!memory.empty()) {
    throw_if_stopped();
    const std::size_t piece = std::min(memory.size(), kPiece);
    std::memset(memory.data(), value, piece);
    memory = memory.subspan(piece);
  }
}

HostStream& host(Stream& stream) {
  return static_cast<HostStream&>(stream);
}

}  // namespace

HostDevice::HostDevice(HostDeviceSettings settings, Recorder& recorder)
    : settings_(std::move(settings)), recorder_(recorder) {}

Buffer HostDevice::allocate(MemoryKind kind, std::size_t bytes, std::string_view purpose) {
  if (bytes == 0) return {};
  constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t capacity = settings_.memory && kind == MemoryKind::kDevice
                                     ? static_cast<std::uint64_t>(settings_.memory->value())
                                     : kUnlimited;
  const std::shared_ptr<MemoryLedger>& ledger = ledgers_.at(static_cast<std::size_t>(kind));
  if (!ledger->try_hold(bytes, purpose, capacity)) {
    throw Error(
        ErrorKind::kInfeasible,
        fmt::format("device memory: {} needs {} bytes, {} of {} are free; held: {}", purpose, bytes,
                    capacity - std::min(capacity, ledger->held()), capacity, ledger->holders()));
  }
  void* address = ::operator new(bytes, kAlignment, std::nothrow);
  const auto give_back = [bytes, ledger, name = std::string(purpose)] {
    ledger->give_back(bytes, name);
  };
  if (address == nullptr) {
    give_back();
    throw Error(ErrorKind::kInfeasible,
                fmt::format("host memory: no {} bytes left for {}", bytes, purpose));
  }
  Buffer buffer(address, bytes, [give_back](void* held) {
    ::operator delete(held, kAlignment);
    give_back();
  });
  fill({buffer.data(), bytes}, settings_.fill);
  return buffer;
}

std::unique_ptr<Stream> HostDevice::make_stream(std::string_view name) {
  const sim::TrackKind kind =
      name == "compute" ? sim::TrackKind::kGpuKernels : sim::TrackKind::kGpuCopies;
  Jitter jitter = settings_.jitter;
  jitter.seed = jitter.seed * 1'000'003 + streams_made_++;
  jitter.lazy = jitter.lazy ||
                std::count(settings_.lazy_streams.begin(), settings_.lazy_streams.end(), name) > 0;
  return std::make_unique<HostStream>(recorder_.add_track(std::string(name), kind), jitter);
}

std::shared_ptr<Signal> HostDevice::make_signal() {
  return std::make_shared<HostSignal>();
}

Clock::duration HostDevice::time_on_link(std::size_t bytes) const {
  const std::chrono::duration<double> time(
      (Bytes(static_cast<double>(bytes)) / *settings_.link_bandwidth).value());
  return std::chrono::duration_cast<Clock::duration>(
      std::min<std::chrono::duration<double>>(time, LinkPacer::kLongest));
}

Clock::time_point HostDevice::occupy_link(CopyDirection direction, std::size_t bytes,
                                          Clock::time_point ready) {
  const std::lock_guard lock(mutex_);
  return link_.at(static_cast<std::size_t>(direction))
      .occupy(ready, Clock::now(), time_on_link(bytes));
}

bool HostDevice::wait_for_link(Clock::time_point end) {
  for (Clock::time_point now = Clock::now(); now < end; now = Clock::now()) {
    if (settings_.link_released && settings_.link_released()) {
      has_released_link_ = true;
      return false;
    }
    std::this_thread::sleep_for(std::min<Clock::duration>(end - now, kAskLink));
  }
  return true;
}

void HostDevice::leave_link(CopyDirection direction, Clock::time_point end, bool has_slept) {
  const std::lock_guard lock(mutex_);
  link_.at(static_cast<std::size_t>(direction)).woke(end, has_slept ? Clock::now() : end);
}

void HostDevice::copy(Stream& stream, void* to, const void* from, std::size_t bytes,
                      CopyDirection direction, Traffic kind, Label label) {
  if (bytes == 0) return;
  traffic_.add(direction, kind, bytes);
  host(stream).copy(label, direction, kind, bytes, [=, this](Clock::time_point ready) {
    if (!settings_.link_bandwidth) {
      std::memcpy(to, from, bytes);
      return;
    }
    const bool is_bulk = !is_mapped(kind, bytes);
    const Clock::time_point end =
        is_bulk ? occupy_link(direction, bytes, ready) : Clock::now() + time_on_link(bytes);
    std::memcpy(to, from, bytes);
    const bool has_to_sleep = Clock::now() < end;
    if (wait_for_link(end) && is_bulk) leave_link(direction, end, has_to_sleep);
  });
}

void HostDevice::run(Stream& stream, Label label, std::function<void()> work) {
  host(stream).run(label, std::move(work));
}

void HostDevice::clear(Stream& stream, void* values, std::size_t bytes, Label label) {
  host(stream).run(label, [=] { std::memset(values, 0, bytes); });
}

void HostDevice::square_sums(Stream& stream, ElementType type, std::span<const SquareSum> arrays,
                             Label label) {
  host(stream).run(label, [type, all = std::vector(arrays.begin(), arrays.end())] {
    with_type(type, [&](auto* element) {
      using E = Pointee<decltype(element)>;
      for (const SquareSum& one : all) {
        *one.sum = kernels::square_sum(static_cast<const E*>(one.values), one.n);
      }
    });
  });
}

void HostDevice::column_norms(Stream& stream, ElementType type, const DeviceMatrix& matrix,
                              NormKind kind, float* norms, Label label) {
  host(stream).run(label, [=] {
    std::vector<float> other(matrix.columns);
    const kernels::ColumnNorms both = kind == NormKind::kL1
                                          ? kernels::ColumnNorms{norms, other.data()}
                                          : kernels::ColumnNorms{other.data(), norms};
    with_type(type, [&](auto* element) {
      kernels::column_norms(view<Pointee<decltype(element)>>(matrix), both);
    });
  });
}

void HostDevice::gather_columns(Stream& stream, ElementType type, const DeviceMatrix& matrix,
                                const std::uint32_t* column, std::size_t n, void* out,
                                Label label) {
  host(stream).run(label, [=] {
    with_type(type, [&](auto* element) {
      using E = Pointee<decltype(element)>;
      if (column == nullptr) {
        std::copy_n(static_cast<const E*>(matrix.values), matrix.rows * n, static_cast<E*>(out));
      } else {
        kernels::gather_columns(view<E>(matrix), column, n, static_cast<E*>(out));
      }
    });
  });
}

void HostDevice::scatter_columns(Stream& stream, ElementType type, const void* in,
                                 const std::uint32_t* column, std::size_t n,
                                 const DeviceMatrix& matrix, Label label) {
  host(stream).run(label, [=] {
    with_type(type, [&](auto* element) {
      using E = Pointee<decltype(element)>;
      if (column == nullptr) {
        std::copy_n(static_cast<const E*>(in), matrix.rows * n, static_cast<E*>(matrix.values));
      } else {
        kernels::scatter_columns(static_cast<const E*>(in), matrix.rows, n, column,
                                 static_cast<E*>(matrix.values), matrix.columns);
      }
    });
  });
}

void HostDevice::update_columns(Stream& stream, ElementType type,
                                const kernels::AdamWSettings& settings,
                                const kernels::ColumnCorrections& corrections, float gradient_scale,
                                const void* gradient, const SelectedColumns& selected,
                                const DeviceMatrix& weights, Label label) {
  host(stream).run(label, [=] {
    with_type(type, [&](auto* element) {
      using E = Pointee<decltype(element)>;
      kernels::adamw_columns(settings, corrections, gradient_scale, weights.rows, selected.columns,
                             selected.state, static_cast<const E*>(gradient),
                             kernels::ColumnScatter<E>{static_cast<E*>(weights.values),
                                                       weights.columns, selected.column});
    });
  });
}

void HostDevice::accumulate(Stream& stream, ElementType type, const void* gradient, float scale,
                            std::size_t n, bool first, float* sum, Label label) {
  host(stream).run(label, [=] {
    with_type(type, [&](auto* element) {
      using E = Pointee<decltype(element)>;
      const E* values = static_cast<const E*>(gradient);
      first ? kernels::accumulate_first(sum, values, scale, n)
            : kernels::accumulate(sum, values, scale, n);
    });
  });
}

}  // namespace zenflow::runtime
