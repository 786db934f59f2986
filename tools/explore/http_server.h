/// A small HTTP server for one reader on this machine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace zenflow::tools {

struct HttpRequest {
  std::string path;   ///< "/answer"
  std::string query;  ///< what stands after "?", as it was sent
};

struct HttpResponse {
  unsigned status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

/// Answers GET requests on 127.0.0.1, each on one of `threads` threads; any number may wait. Only
/// requests that name this machine as their host are answered, so that a page of another origin
/// cannot ask through a name of its own. Connections that say nothing for ten seconds are closed,
/// and what is sent to it is at most 8 KiB of header and no body.
class HttpServer {
 public:
  using Answer = std::function<HttpResponse(const HttpRequest&)>;

  /// Listens from here on. `port` 0: one that is free. Throws Error(kInput) if it is taken,
  /// Error(kRuntime) if the system fails otherwise.
  HttpServer(std::uint16_t port, unsigned threads, Answer answer);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  [[nodiscard]] std::uint16_t port() const;
  /// Until `stopped` is true, which is asked twenty times a second. Answers that are being made
  /// are sent before it returns.
  void serve(const std::function<bool()>& stopped);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zenflow::tools
