#include "serve/http/server.h"

#include <atomic>
#include <exception>
#include <optional>
#include <random>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include "base/log.h"
#include "serve/http/connection.h"
#include "serve/http/http_error.h"

namespace quire {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
using asio::ip::tcp;
using Unix = asio::local::stream_protocol;
using ErrorCode = boost::system::error_code;

namespace {

constexpr auto kAwaited = asio::as_tuple(asio::use_awaitable);
constexpr std::chrono::milliseconds kTick{500};
constexpr int kKernelSendBytes = 256 * 1024;
// A request with as large a body is a long one: its text may take seconds to become tokens.
constexpr std::size_t kLongBodyBytes = 256 * 1024;

std::string random_prefix() {
  std::random_device device;
  return fmt::format("req-{:08x}{:08x}", device(), device());
}

Status listen_error(const std::string& where, const ErrorCode& error) {
  if (error == asio::error::address_in_use) {
    return Status::unavailable(fmt::format("cannot listen on {}: it is in use", where),
                               "stop the other program or choose another --port");
  }
  return Status::io_error(fmt::format("cannot listen on {}: {}", where, error.message()),
                          "check --host, --port and --uds");
}

}  // namespace

class HttpServer::Impl {
 public:
  explicit Impl(HttpServerConfig config)
      : workers_(static_cast<std::size_t>(std::max(1, config.num_workers))),
        tcp_acceptor_(io_),
        unix_acceptor_(io_) {
    outbox_ = std::make_shared<Outbox>([this] { asio::post(io_, [this] { wake_connections(); }); });
    const bool loopback = config.uds.empty() && is_loopback_host(config.host);
    shared_.reset(new ConnectionShared{
        .config = config,
        .router = {},
        .access =
            AccessPolicy(loopback, config.allowed_hosts, config.allowed_origins, config.api_keys),
        .outbox = outbox_,
        .run_on_worker =
            [this](std::function<void()> task) { return run_on_worker(std::move(task)); },
        .bodies = BodyBudget(config.max_total_body_bytes),
        .request_id_prefix = random_prefix()});
  }

  ~Impl() {
    workers_.stop();
    long_worker_.stop();
    workers_.join();
    long_worker_.join();
    outbox_->close();
    if (!config().uds.empty() && unix_acceptor_.is_open()) ::unlink(config().uds.c_str());
  }

  const HttpServerConfig& config() const { return shared_->config; }

  Status listen() {
    QUIRE_RETURN_IF_ERROR(load_certificate());
    return config().uds.empty() ? listen_tcp() : listen_unix();
  }

  void run(Router router) {
    for (Route route : router.routes()) {
      if (!route.inline_handler) route.handler = apart_if_long(std::move(route.handler));
      shared_->router.add(std::move(route));
    }
    if (tcp_acceptor_.is_open()) spawn([this] { return accept_loop(tcp_acceptor_); });
    if (unix_acceptor_.is_open()) spawn([this] { return accept_loop(unix_acceptor_); });
    every(kTick, [this] { tick(); });
    for (auto& [interval, task] : timers_) {
      spawn([this, each = interval, call = std::move(task)] { return repeat(each, call); });
    }
    io_.run();
  }

  void every(std::chrono::milliseconds interval, std::function<void()> task) {
    timers_.emplace_back(interval, std::move(task));
  }

  void drain() {
    asio::post(io_, [this] { shared_->draining = true; });
  }
  void stop() { io_.stop(); }

  const std::string& address() const { return address_; }
  std::uint16_t port() const { return port_; }

  HttpServerStats stats() const {
    return {.connections = shared_->connections,
            .connections_total = shared_->connections_total,
            .exchanges = shared_->exchanges,
            .exchanges_total = shared_->exchanges_total,
            .disconnects = shared_->disconnects,
            .slow_readers = shared_->slow_readers};
  }

 private:
  template <typename Coroutine>
  void spawn(Coroutine coroutine) {
    asio::co_spawn(io_, std::move(coroutine), asio::detached);
  }

  Status load_certificate() {
    if (config().ssl_certfile.empty() && config().ssl_keyfile.empty()) return {};
    if (config().ssl_certfile.empty()) {
      return Status::config("--ssl-keyfile needs --ssl-certfile");
    }
    const std::string& key =
        config().ssl_keyfile.empty() ? config().ssl_certfile : config().ssl_keyfile;
    tls_.emplace(ssl::context::tls_server);
    tls_->set_options(ssl::context::default_workarounds | ssl::context::no_tlsv1 |
                      ssl::context::no_tlsv1_1);
    ErrorCode error;
    tls_->use_certificate_chain_file(config().ssl_certfile, error);
    if (error) {
      return Status::config(
          fmt::format("--ssl-certfile {}: {}", config().ssl_certfile, error.message()));
    }
    tls_->use_private_key_file(key, ssl::context::pem, error);
    if (error) return Status::config(fmt::format("--ssl-keyfile {}: {}", key, error.message()));
    return {};
  }

  Status listen_tcp() {
    const std::string where = fmt::format("{}:{}", config().host, config().port);
    ErrorCode error;
    tcp::resolver resolver(io_);
    const auto found = resolver.resolve(config().host, std::to_string(config().port),
                                        tcp::resolver::passive, error);
    if (error || found.empty()) return listen_error(where, error);
    const tcp::endpoint endpoint = *found.begin();
    tcp_acceptor_.open(endpoint.protocol(), error);
    if (!error) tcp_acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) tcp_acceptor_.bind(endpoint, error);
    if (!error) tcp_acceptor_.listen(SOMAXCONN, error);
    if (error) return listen_error(where, error);
    port_ = tcp_acceptor_.local_endpoint(error).port();
    const bool six = endpoint.address().is_v6();
    address_ = fmt::format("{}://{}{}{}:{}", tls_ ? "https" : "http", six ? "[" : "", config().host,
                           six ? "]" : "", port_);
    return {};
  }

  // A socket file that nobody listens on is left over from a server that was killed.
  Status listen_unix() {
    const std::string& path = config().uds;
    const std::string where = "unix:" + path;
    if (path.size() >= sizeof(sockaddr_un::sun_path)) {
      return Status::invalid_argument(fmt::format("--uds {}: the path is too long", path));
    }
    ErrorCode error;
    Unix::socket probe(io_);
    probe.connect(Unix::endpoint(path), error);
    if (!error) return listen_error(where, asio::error::address_in_use);
    struct stat found {};
    const bool is_socket = ::lstat(path.c_str(), &found) == 0 && S_ISSOCK(found.st_mode);
    if (error == asio::error::connection_refused && is_socket) ::unlink(path.c_str());
    unix_acceptor_.open(Unix(), error);
    if (!error) unix_acceptor_.bind(Unix::endpoint(path), error);
    if (!error) unix_acceptor_.listen(SOMAXCONN, error);
    if (error) {
      ErrorCode ignored;
      unix_acceptor_.close(ignored);
      return listen_error(where, error);
    }
    address_ = where;
    return {};
  }

  // Without descriptors or memory for another connection, those that there are go on.
  template <typename Acceptor>
  asio::awaitable<void> accept_loop(Acceptor& acceptor) {
    asio::steady_timer pause(io_);
    while (true) {
      auto [error, socket] = co_await acceptor.async_accept(kAwaited);
      if (error == asio::error::operation_aborted) co_return;
      if (error) {
        log_warning("cannot take a connection: {}", error.message());
        pause.expires_after(std::chrono::milliseconds(100));
        co_await pause.async_wait(kAwaited);
        continue;
      }
      if (shared_->connections >= static_cast<std::int64_t>(config().max_connections)) {
        ErrorCode ignored;
        socket.close(ignored);
        continue;
      }
      ErrorCode ignored;
      // Else the kernel takes megabytes for a client that does not read.
      socket.set_option(asio::socket_base::send_buffer_size(kKernelSendBytes), ignored);
      if constexpr (std::is_same_v<Acceptor, tcp::acceptor>) {
        socket.set_option(tcp::no_delay(true), ignored);
      }
      auto connection = tls_ ? make_tls_connection(StreamSocket(std::move(socket)), *tls_, *shared_)
                             : make_connection(StreamSocket(std::move(socket)), *shared_);
      connection->start();
      connections_.push_back(connection);
    }
  }

  asio::awaitable<void> repeat(std::chrono::milliseconds interval, std::function<void()> task) {
    asio::steady_timer timer(io_);
    while (true) {
      timer.expires_after(interval);
      co_await timer.async_wait(kAwaited);
      task();
    }
  }

  void tick() {
    const auto now = std::chrono::steady_clock::now();
    std::erase_if(connections_, [&](const std::weak_ptr<Connection>& weak) {
      const auto connection = weak.lock();
      if (connection) connection->tick(now);
      return connection == nullptr;
    });
  }

  void wake_connections() {
    for (const auto& answer : outbox_->take()) answer->wake_connection();
  }

  // Long texts take their turns on a thread of their own: a short request never waits for several
  // of them, whatever the number of workers.
  HttpHandler apart_if_long(HttpHandler handler) {
    return [this, call = std::move(handler)](const std::shared_ptr<Exchange>& exchange) {
      if (exchange->request().body.size() < kLongBodyBytes) return call(exchange);
      asio::post(long_worker_, [&call, exchange] {
        if (exchange->gone()) return;
        try {
          call(exchange);
        } catch (const std::exception& exception) {
          log_warning("{}: {}", exchange->request().path, exception.what());
          exchange->respond(http_error(500, "internal error"));
        }
      });
    };
  }

  bool run_on_worker(std::function<void()> task) {
    if (num_queued_ >= config().max_queued_handlers) return false;
    ++num_queued_;
    asio::post(workers_, [this, call = std::move(task)] {
      --num_queued_;
      call();
    });
    return true;
  }

  std::unique_ptr<ConnectionShared> shared_;  // outlives io_, which holds the connections
  std::shared_ptr<Outbox> outbox_;
  std::optional<ssl::context> tls_;
  std::atomic<std::uint32_t> num_queued_ = 0;
  asio::io_context io_{1};
  asio::thread_pool workers_;
  asio::thread_pool long_worker_{1};
  tcp::acceptor tcp_acceptor_;
  Unix::acceptor unix_acceptor_;
  std::vector<std::weak_ptr<Connection>> connections_;
  std::vector<std::pair<std::chrono::milliseconds, std::function<void()>>> timers_;
  std::string address_;
  std::uint16_t port_ = 0;
};

Result<std::unique_ptr<HttpServer>> HttpServer::listen(HttpServerConfig config) {
  auto impl = std::make_unique<Impl>(std::move(config));
  QUIRE_RETURN_IF_ERROR(impl->listen());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;
const std::string& HttpServer::address() const { return impl_->address(); }
std::uint16_t HttpServer::port() const { return impl_->port(); }
void HttpServer::run(Router router) { impl_->run(std::move(router)); }
void HttpServer::drain() { impl_->drain(); }
void HttpServer::stop() { impl_->stop(); }
void HttpServer::every(std::chrono::milliseconds interval, std::function<void()> task) {
  impl_->every(interval, std::move(task));
}
HttpServerStats HttpServer::stats() const { return impl_->stats(); }

}  // namespace quire
