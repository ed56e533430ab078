#include "serve/http/server.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <list>
#include <new>
#include <optional>
#include <random>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fmt/format.h>

#include "base/exhaustion.h"
#include "base/log.h"
#include "serve/http/connection.h"
#include "serve/http/workers.h"

namespace quire {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
using asio::ip::tcp;
using Unix = asio::local::stream_protocol;
using ErrorCode = boost::system::error_code;

namespace {

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
      : workers_(std::max(1, config.num_workers)), tcp_acceptor_(io_), unix_acceptor_(io_) {
    outbox_ = std::make_shared<Outbox>([this] { asio::post(io_, [this] { wake_connections(); }); });
    const bool loopback = config.uds.empty() && is_loopback_host(config.host);
    shared_.reset(new ConnectionShared{
        .config = config,
        .router = {},
        .access =
            AccessPolicy(loopback, config.allowed_hosts, config.allowed_origins, config.api_keys),
        .outbox = outbox_,
        .run_on_worker =
            [this](std::size_t body_bytes, std::function<void()> task) {
              return run_on_worker(body_bytes, std::move(task));
            },
        .bodies = BodyBudget(config.max_total_body_bytes),
        .request_id_prefix = random_prefix()});
    every(kTick, [this] { tick(); });
  }

  ~Impl() {
    workers_.stop();
    long_worker_.stop();
    outbox_->close();
    if (!config().uds.empty() && unix_acceptor_.is_open()) ::unlink(config().uds.c_str());
  }

  const HttpServerConfig& config() const { return shared_->config; }

  Status listen() {
    QUIRE_RETURN_IF_ERROR(load_certificate());
    return config().uds.empty() ? listen_tcp() : listen_unix();
  }

  void run(Router router) {
    shared_->router = std::move(router);
    for (Repeated& repeated : repeated_) wait_for_next(repeated);
    until_memory([this] {
      accept_next(tcp_acceptor_);
      accept_next(unix_acceptor_);
    });
    // What there was no memory for is lost, and no more than that: tick() looks at everything
    // again.
    while (!io_.stopped()) {
      try {
        io_.run();
      } catch (const std::exception& error) {
        log_warning("the server's I/O thread: {}", error.what());
      }
    }
    workers_.stop();
    long_worker_.stop();
  }

  void every(std::chrono::milliseconds interval, std::function<void()> task) {
    repeated_.push_back({interval, std::move(task), asio::steady_timer(io_)});
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
  struct Asked {};

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

  // Asks for the next connection, unless it is asked for already. Without descriptors or memory
  // for another one, those that there are go on.
  template <typename Acceptor>
  void accept_next(Acceptor& acceptor) {
    if (!acceptor.is_open() || !accepting_.expired()) return;
    const auto asked = std::make_shared<Asked>();
    accepting_ = asked;
    acceptor.async_accept(
        [this, &acceptor, held = asked](const ErrorCode& error,
                                        typename Acceptor::protocol_type::socket socket) {
          if (error == asio::error::operation_aborted) return;
          accepting_.reset();
          if (error) {
            log_warning("cannot take a connection: {}", error.message());
            return;  // the next tick asks again
          }
          take_connection<Acceptor>(std::move(socket));
          accept_next(acceptor);
        });
  }

  template <typename Acceptor, typename Socket>
  void take_connection(Socket socket) {
    ErrorCode ignored;
    if (shared_->connections >= static_cast<std::int64_t>(config().max_connections)) {
      socket.close(ignored);
      return;
    }
    // Else the kernel buffers megabytes for a client that does not read.
    socket.set_option(asio::socket_base::send_buffer_size(kKernelSendBytes), ignored);
    if constexpr (std::is_same_v<Acceptor, tcp::acceptor>) {
      socket.set_option(tcp::no_delay(true), ignored);
    }
    auto connection = tls_ ? make_tls_connection(StreamSocket(std::move(socket)), *tls_, *shared_)
                           : make_connection(StreamSocket(std::move(socket)), *shared_);
    connections_.push_back(connection);
    connection->start();
  }

  // What is done again and again; a callback and no coroutine, for a coroutine that lacks memory
  // for its next wait is gone.
  struct Repeated {
    std::chrono::milliseconds interval;
    std::function<void()> task;
    asio::steady_timer timer;
  };

  void wait_for_next(Repeated& repeated) {
    until_memory([&] {
      repeated.timer.expires_after(repeated.interval);
      repeated.timer.async_wait([this, &repeated](const ErrorCode& error) {
        if (error) return;
        try {
          repeated.task();
        } catch (const std::bad_alloc&) {
          // It comes again.
        }
        wait_for_next(repeated);
      });
    });
  }

  // Also makes good what there was no memory for: a wake-up, the next connection.
  void tick() {
    wake_connections();
    accept_next(tcp_acceptor_);
    accept_next(unix_acceptor_);
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

  // Long texts wait in turn for a thread of their own: a short request never waits for several
  // of them, whatever the number of workers.
  bool run_on_worker(std::size_t body_bytes, std::function<void()> task) {
    if (num_queued_ >= config().max_queued_handlers) return false;
    Workers& workers = body_bytes < kLongBodyBytes ? workers_ : long_worker_;
    ++num_queued_;
    try {
      workers.post([this, call = std::move(task)] {
        --num_queued_;
        call();
      });
    } catch (const std::bad_alloc&) {
      --num_queued_;
      throw;
    }
    return true;
  }

  std::unique_ptr<ConnectionShared> shared_;  // outlives io_, which owns the connections
  std::shared_ptr<Outbox> outbox_;
  std::optional<ssl::context> tls_;
  std::atomic<std::uint32_t> num_queued_ = 0;
  asio::io_context io_{1};
  Workers workers_;
  Workers long_worker_{1};
  tcp::acceptor tcp_acceptor_;
  Unix::acceptor unix_acceptor_;
  std::vector<std::weak_ptr<Connection>> connections_;
  std::list<Repeated> repeated_;
  std::weak_ptr<Asked> accepting_;  // owned by who waits for the next connection
  std::string address_;
  std::uint16_t port_ = 0;
};

Result<std::unique_ptr<HttpServer>> HttpServer::listen(HttpServerConfig config) {
  return or_status([&]() -> Result<std::unique_ptr<HttpServer>> {
    auto impl = std::make_unique<Impl>(std::move(config));
    QUIRE_RETURN_IF_ERROR(impl->listen());
    return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
  });
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
