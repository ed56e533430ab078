// An HTTP/1.1 server on Boost.Beast: all of Asio and Beast stays behind this header.
//
// One I/O thread (the caller of run()) reads requests and writes answers of all connections; the
// routes' handlers run on a few workers, so that parsing and tokenizing delay no one's stream.
// Everything is bounded: headers, bodies, connections, time without progress, bytes that a client
// does not read.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "serve/http/router.h"

namespace quire {

struct HttpServerConfig {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;  // 0: any free one
  std::string uds;            // path of a UNIX socket to listen on instead
  std::string ssl_certfile;   // PEM; with ssl_keyfile: TLS
  std::string ssl_keyfile;
  std::vector<std::string> api_keys;  // empty: no key is needed
  // Host headers that are served besides localhost and loopback addresses while bound to loopback;
  // where not bound to loopback every host is, unless some are named here.
  std::vector<std::string> allowed_hosts;
  std::vector<std::string> allowed_origins;  // for browsers on other pages (CORS); "*": any
  std::uint32_t max_header_bytes = 16 * 1024;
  std::uint32_t max_headers = 100;
  std::uint64_t max_body_bytes = 32ULL << 20;
  // Of all requests from the first byte of their body to the answer's end.
  std::uint64_t max_total_body_bytes = 512ULL << 20;
  std::uint32_t max_connections = 8192;
  std::uint64_t max_unsent_bytes = 1ULL << 20;       // of one connection
  std::chrono::milliseconds header_timeout{10'000};  // from its first byte to its last
  std::chrono::milliseconds body_timeout{30'000};    // without a byte
  std::chrono::milliseconds body_deadline{300'000};  // from its first byte to its last
  // Bytes a second that a body has to have come at, on average, after body_timeout.
  std::uint64_t min_body_rate = 1024;
  std::chrono::milliseconds write_timeout{60'000};        // without a byte read
  std::chrono::milliseconds idle_timeout{75'000};         // between requests
  std::chrono::milliseconds keep_alive_interval{15'000};  // of comments in a silent event stream
  int num_workers = 2;
  std::uint32_t max_queued_handlers = 4096;  // requests that wait for a worker
};

// Counters since the start, and gauges.
struct HttpServerStats {
  std::int64_t connections = 0;  // open now
  std::int64_t connections_total = 0;
  std::int64_t exchanges = 0;  // requests being answered now
  std::int64_t exchanges_total = 0;
  std::int64_t disconnects = 0;   // clients that went away before the answer's end
  std::int64_t slow_readers = 0;  // of them: dropped, for they let their buffer overflow
};

class HttpServer {
 public:
  // Binds and listens, so that a port in use shows before a model is loaded; who connects waits for
  // run(). kUnavailable where the address is in use, kIoError where the system refuses it, kConfig
  // for a certificate that cannot be read, kInvalidArgument for another broken setting.
  static Result<std::unique_ptr<HttpServer>> listen(HttpServerConfig config);
  ~HttpServer();

  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // "http://127.0.0.1:8000", "https://...", "unix:/path".
  const std::string& address() const;
  std::uint16_t port() const;

  // Serves `router`'s routes until stop(). The caller's thread becomes the I/O thread. When it
  // returns no handler runs any more.
  void run(Router router);

  // Any thread. Answers from now on say that they are their connection's last.
  void drain();
  // Any thread. Closes everything; run() returns.
  void stop();

  // Calls `task` on the I/O thread, every `interval`, until stop(). Before run().
  void every(std::chrono::milliseconds interval, std::function<void()> task);

  HttpServerStats stats() const;  // any thread

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
