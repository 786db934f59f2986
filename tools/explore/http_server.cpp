#include "tools/explore/http_server.h"

#include <chrono>
#include <optional>
#include <utility>

#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>

#include "sim/base/error.h"

namespace zenflow::tools {
// Not without a name: State, which has one, consists of these.
namespace serving {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using Failure = boost::system::error_code;

constexpr std::uint32_t kLargestHeader = 8 * 1024;
constexpr std::chrono::seconds kPatience(10);
constexpr std::chrono::milliseconds kBetweenQuestions(50);

using Request = http::request<http::empty_body>;
using Response = http::response<http::string_body>;

Response response_of(const HttpResponse& answer, unsigned version, bool keep_alive) {
  Response response(static_cast<http::status>(answer.status), version);
  response.set(http::field::content_type, answer.type);
  response.set(http::field::cache_control, "no-store");
  response.set("X-Content-Type-Options", "nosniff");
  response.keep_alive(keep_alive);
  response.body() = answer.body;
  response.prepare_payload();
  return response;
}

/// Whether the request's host is this machine, by number or as localhost.
bool is_of_this_machine(const Request& request, std::uint16_t port) {
  const auto host = request[http::field::host];
  return host == fmt::format("127.0.0.1:{}", port) || host == fmt::format("localhost:{}", port);
}

HttpRequest request_of(const Request& request) {
  const std::string target(request.target());
  const std::size_t mark = target.find('?');
  if (mark == std::string::npos) return {target, ""};
  return {target.substr(0, mark), target.substr(mark + 1)};
}

/// What all connections share.
struct Service {
  HttpServer::Answer answer;
  asio::thread_pool& workers;
  std::uint16_t port;

  [[nodiscard]] HttpResponse respond(const Request& request) const {
    if (!is_of_this_machine(request, port)) return {403, "text/plain", "not for other hosts\n"};
    if (request.method() != http::verb::get) return {405, "text/plain", "only GET\n"};
    try {
      return answer(request_of(request));
    } catch (const std::exception& error) {
      return {500, "text/plain; charset=utf-8", std::string(error.what()) + "\n"};
    }
  }
};

/// One connection; lives as long as something of it is going on.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, const Service& service)
      : stream_(std::move(socket)), service_(service) {}

  void read() {
    parser_.emplace();
    parser_->header_limit(kLargestHeader);
    parser_->body_limit(0);
    stream_.expires_after(kPatience);
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](Failure failure, std::size_t) {
                       if (failure) return;  // closed, late, or not HTTP
                       self->work();
                     });
  }

 private:
  /// Answers on a worker, so that other connections are not kept waiting; sends where it is read.
  void work() {
    stream_.expires_never();
    asio::post(service_.workers, [self = shared_from_this()] {
      const Request& request = self->parser_->get();
      Response response =
          response_of(self->service_.respond(request), request.version(), request.keep_alive());
      asio::post(self->stream_.get_executor(), [self, response = std::move(response)]() mutable {
        self->response_ = std::move(response);
        self->write();
      });
    });
  }

  void write() {
    stream_.expires_after(kPatience);
    http::async_write(stream_, response_,
                      [self = shared_from_this()](Failure failure, std::size_t) {
                        if (failure) return;
                        if (self->response_.keep_alive()) {
                          self->read();
                        } else {
                          Failure ignored;
                          self->stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
                        }
                      });
  }

  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::empty_body>> parser_;
  Response response_;
  const Service& service_;
};

}  // namespace serving

struct HttpServer::State {
  State(std::uint16_t port, unsigned threads, Answer answer)
      : acceptor(io), workers(threads), service{std::move(answer), workers, port} {}

  void accept() {
    acceptor.async_accept([this](serving::Failure failure, serving::tcp::socket socket) {
      if (failure == serving::asio::error::operation_aborted) return;
      if (failure) return accept_later();
      std::make_shared<serving::Connection>(std::move(socket), service)->read();
      accept();
    });
  }

  /// Where there are too many open files, say, which trying at once would not change.
  void accept_later() {
    pause.expires_after(serving::kBetweenQuestions);
    pause.async_wait([this](serving::Failure failure) {
      if (!failure) accept();
    });
  }

  void ask(const std::function<bool()>& stopped) {
    timer.expires_after(serving::kBetweenQuestions);
    timer.async_wait([this, &stopped](serving::Failure) {
      if (!stopped()) return ask(stopped);
      serving::Failure ignored;
      acceptor.close(ignored);
      io.stop();
    });
  }

  serving::asio::io_context io;
  serving::tcp::acceptor acceptor;
  serving::asio::steady_timer timer{io};
  serving::asio::steady_timer pause{io};
  serving::asio::thread_pool workers;
  serving::Service service;
};

HttpServer::HttpServer(std::uint16_t port, unsigned threads, Answer answer)
    : state_(std::make_unique<State>(port, threads, std::move(answer))) {
  try {
    serving::tcp::acceptor& acceptor = state_->acceptor;
    acceptor.open(serving::tcp::v4());
    acceptor.set_option(serving::asio::socket_base::reuse_address(true));
    acceptor.bind({serving::asio::ip::address_v4::loopback(), port});
    acceptor.listen(serving::asio::socket_base::max_listen_connections);
    state_->service.port = acceptor.local_endpoint().port();
  } catch (const boost::system::system_error& error) {
    const bool is_taken = error.code() == serving::asio::error::address_in_use ||
                          error.code() == serving::asio::error::access_denied;
    throw Error(is_taken ? ErrorKind::kInput : ErrorKind::kRuntime,
                fmt::format("--port {}: {}", port, error.code().message()));
  }
}

HttpServer::~HttpServer() {
  state_->workers.join();
}

std::uint16_t HttpServer::port() const {
  return state_->service.port;
}

void HttpServer::serve(const std::function<bool()>& stopped) {
  state_->accept();
  state_->ask(stopped);
  state_->io.run();
  // What workers are at becomes an answer that is sent; nothing new is read.
  state_->workers.join();
  state_->io.restart();
  state_->io.run_for(std::chrono::milliseconds(200));
}

}  // namespace zenflow::tools
