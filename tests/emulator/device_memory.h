/// The emulated device's memory and page-locked memory.
#pragma once

#include <cstddef>

namespace zenflow::emulator {

/// 0xFF in every byte: NaNs, and indices out of range. Null if there is no more.
/// With `guarded`, host code that touches it outside of a DeviceAccess faults, as do all accesses
/// beyond the page that follows it.
[[nodiscard]] void* allocate_device(std::size_t bytes, bool guarded);
void free_device(void* memory);

[[nodiscard]] void* allocate_pinned(std::size_t bytes);
void free_pinned(void* memory);
[[nodiscard]] bool is_pinned(const void* address, std::size_t bytes);

[[nodiscard]] std::size_t device_bytes_free();
inline constexpr std::size_t kDeviceBytes = std::size_t{1} << 32;

/// While one lives, device memory may be touched, by any thread.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

}  // namespace zenflow::emulator
