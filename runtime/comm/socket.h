/// TCP connections between ranks.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace zenflow::runtime {

using Deadline = std::chrono::steady_clock::time_point;

/// A value as the bytes of a message.
template <class T>
[[nodiscard]] std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

/// A connection, closed in the destructor. Moves only.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;

  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  [[nodiscard]] int descriptor() const { return descriptor_; }
  void close();

  // All of it; false if the other side is gone, or at the deadline. Throws Stopped.
  [[nodiscard]] bool send(std::span<const std::byte> bytes);
  [[nodiscard]] bool receive(std::span<std::byte> bytes,
                             std::optional<Deadline> deadline = std::nullopt);

  /// The numeric address of the other side.
  [[nodiscard]] std::string peer_address() const;

 private:
  int descriptor_ = -1;
};

/// Where other ranks connect to.
class Listener {
 public:
  /// `port` 0 is any that is free. `address` is one of this machine's; empty: all of them. Throws
  /// Error(kRuntime) if the port is taken.
  explicit Listener(int port, const std::string& address = "");

  [[nodiscard]] int port() const { return port_; }
  /// The next connection, or none within 100 ms.
  [[nodiscard]] Socket accept();

 private:
  Socket socket_;
  int port_ = 0;
};

/// One attempt, by every address that `host` has. A closed socket and why in `why` if there is
/// none.
[[nodiscard]] Socket connect_to(const std::string& host, int port, Deadline deadline,
                                std::string& why);

/// "localhost" and 127.*.*.*: nobody else reaches it.
[[nodiscard]] bool is_local_address(const std::string& host);

}  // namespace zenflow::runtime
