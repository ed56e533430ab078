// One connection of a client: reads requests, has them answered, writes the answers. I/O thread
// only. (Internal to serve/http; includes Asio.)
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ssl/context.hpp>

#include "serve/http/access.h"
#include "serve/http/body_budget.h"
#include "serve/http/pending_answer.h"
#include "serve/http/router.h"
#include "serve/http/server.h"

namespace quire {

// What the connections of a server share; outlives them.
struct ConnectionShared {
  HttpServerConfig config;
  Router router;
  AccessPolicy access;
  std::shared_ptr<Outbox> outbox;
  // Runs the handler of a request with a body of `body_bytes` on a worker; false: too many wait
  // already.
  std::function<bool(std::size_t body_bytes, std::function<void()>)> run_on_worker;
  BodyBudget bodies;
  bool draining = false;
  std::uint64_t next_request_number = 1;
  std::string request_id_prefix;  // random, so that ids differ between servers

  // Gauges and counters; written on the I/O thread.
  std::atomic<std::int64_t> connections{0};
  std::atomic<std::int64_t> connections_total{0};
  std::atomic<std::int64_t> exchanges{0};
  std::atomic<std::int64_t> exchanges_total{0};
  std::atomic<std::int64_t> disconnects{0};
  std::atomic<std::int64_t> slow_readers{0};
};

class Connection {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  virtual ~Connection() = default;

  virtual void start() = 0;
  // Called every second or so: closes what has waited too long, comforts silent streams.
  virtual void tick(TimePoint now) = 0;
  virtual void close() = 0;
};

using StreamSocket = boost::asio::generic::stream_protocol::socket;

std::shared_ptr<Connection> make_connection(StreamSocket socket, ConnectionShared& shared);
std::shared_ptr<Connection> make_tls_connection(StreamSocket socket,
                                                boost::asio::ssl::context& context,
                                                ConnectionShared& shared);

}  // namespace quire
