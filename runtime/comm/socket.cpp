#include "runtime/comm/socket.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sim/base/error.h"
#include "sim/base/stop.h"

namespace zenflow::runtime {
namespace {

constexpr int kPollMilliseconds = 100;

/// Whether there is something to do; false at the deadline. Throws Stopped.
bool wait_for(int descriptor, short what, std::optional<Deadline> deadline) {
  for (;;) {
    throw_if_stopped();
    pollfd one{.fd = descriptor, .events = what, .revents = 0};
    const int found = poll(&one, 1, kPollMilliseconds);
    if (found > 0) return true;
    if (found < 0 && errno != EINTR) return false;
    if (deadline && Deadline::clock::now() > *deadline) return false;
  }
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Addresses addresses(const char* host, int port, int flags, std::string& why) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int status = getaddrinfo(host, std::to_string(port).c_str(), &hints, &found);
  if (status != 0) why = gai_strerror(status);
  return Addresses(found);
}

/// Messages are small and waited for.
void send_at_once(int descriptor) {
  const int on = 1;
  static_cast<void>(setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
}

std::string text_of(int error) {
  return std::strerror(error);
}

int port_of(int descriptor) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  const auto port = address.ss_family == AF_INET6
                        ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                        : reinterpret_cast<const sockaddr_in*>(&address)->sin_port;
  return ntohs(port);
}

/// Connects within the deadline; 0 or errno.
int connect_within(int descriptor, const addrinfo& address, Deadline deadline) {
  if (connect(descriptor, address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  if (!wait_for(descriptor, POLLOUT, deadline)) return ETIMEDOUT;
  int error = 0;
  socklen_t length = sizeof error;
  if (getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  return error;
}

}  // namespace

Socket::Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    descriptor_ = std::exchange(other.descriptor_, -1);
  }
  return *this;
}

void Socket::close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

bool Socket::send(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_for(descriptor_, POLLOUT, std::nullopt)) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

bool Socket::receive(std::span<std::byte> bytes, std::optional<Deadline> deadline) {
  while (!bytes.empty()) {
    const ssize_t came = recv(descriptor_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (came > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(came));
    } else if (came == 0) {
      return false;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_for(descriptor_, POLLIN, deadline)) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

std::string Socket::peer_address() const {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  std::array<char, NI_MAXHOST> text{};
  if (getpeername(descriptor_, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&address), length, text.data(), text.size(), nullptr,
                  0, NI_NUMERICHOST) != 0) {
    return {};
  }
  return text.data();
}

Listener::Listener(int port, const std::string& given) {
  std::string why;
  const bool any = given.empty();
  const Addresses all = addresses(any ? nullptr : given.c_str(), port, any ? AI_PASSIVE : 0, why);
  // "::" takes IPv4, too, so it comes first; of "localhost" 127.0.0.1 is there everywhere.
  const std::array<int, 2> families =
      any ? std::array{AF_INET6, AF_INET} : std::array{AF_INET, AF_INET6};
  for (const int family : families) {
    for (const addrinfo* one = all.get(); one != nullptr; one = one->ai_next) {
      if (one->ai_family != family) continue;
      Socket made(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (!made.is_open()) continue;
      const int on = 1;
      const int off = 0;
      setsockopt(made.descriptor(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
      if (family == AF_INET6) {
        setsockopt(made.descriptor(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
      }
      if (bind(made.descriptor(), one->ai_addr, one->ai_addrlen) != 0 ||
          listen(made.descriptor(), SOMAXCONN) != 0) {
        why = text_of(errno);
        continue;
      }
      socket_ = std::move(made);
      port_ = port_of(socket_.descriptor());
      return;
    }
  }
  throw Error(ErrorKind::kRuntime, fmt::format("cannot listen on port {}: {}", port, why));
}

Socket Listener::accept() {
  if (!wait_for(socket_.descriptor(), POLLIN, Deadline::clock::now())) return {};
  Socket made(accept4(socket_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (made.is_open()) send_at_once(made.descriptor());
  return made;
}

Socket connect_to(const std::string& host, int port, Deadline deadline, std::string& why) {
  const Addresses all = addresses(host.c_str(), port, 0, why);
  for (const addrinfo* one = all.get(); one != nullptr; one = one->ai_next) {
    Socket made(socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!made.is_open()) continue;
    const int error = connect_within(made.descriptor(), *one, deadline);
    if (error != 0) {
      why = text_of(error);
      continue;
    }
    send_at_once(made.descriptor());
    return made;
  }
  return {};
}

bool is_local_address(const std::string& host) {
  return host == "localhost" || host.starts_with("127.");
}

}  // namespace zenflow::runtime
