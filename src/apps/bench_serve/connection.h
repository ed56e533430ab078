// Connections to the server under test, plain or TLS, all on one thread's io_context.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>

#include "apps/bench_serve/base_url.h"
#include "base/status.h"

namespace quire::bench {

// Where connections go. A name may stand for several addresses: the one that answered first is the
// one that all connections use, so that no request pays for trying the others.
class ServerAddress {
 public:
  using Endpoint = boost::asio::ip::tcp::endpoint;

  // Resolves the host's name. Certificates are verified unless `insecure`, against the system's
  // authorities or those of SSL_CERT_FILE. kUnavailable for a name that nobody knows.
  static Result<ServerAddress> resolve(const BaseUrl& url, bool insecure);

  const BaseUrl& url() const { return url_; }
  const std::vector<Endpoint>& endpoints() const { return endpoints_; }
  void settle(const Endpoint& endpoint) { endpoints_ = {endpoint}; }
  boost::asio::ssl::context* tls() const { return tls_.get(); }  // null: plain

 private:
  BaseUrl url_;
  std::vector<Endpoint> endpoints_;
  std::shared_ptr<boost::asio::ssl::context> tls_;
};

class Connection {
 public:
  template <typename T>
  using Awaitable = boost::asio::awaitable<T>;
  using Error = boost::system::error_code;

  // Borrows both. It is not connected.
  Connection(boost::asio::io_context& context, const ServerAddress& address);

  Awaitable<Error> open(const ServerAddress::Endpoint& endpoint);
  Awaitable<Error> write(std::string_view head, std::string_view body);
  // Waits for bytes; received() has them until the next call.
  Awaitable<Error> read();
  std::string_view received() const { return {buffer_.data(), received_}; }

  // Whether a connection that has rested can be used: the server has neither closed it nor said
  // anything.
  bool usable();
  // Ends what waits on it with an error.
  void close();

 private:
  using Socket = boost::asio::ip::tcp::socket;

  const ServerAddress& address_;
  std::optional<boost::asio::ssl::stream<Socket>> tls_;  // owns the socket, if there is TLS
  std::optional<Socket> plain_;
  Socket& socket_;
  std::vector<char> buffer_;
  std::size_t received_ = 0;
};

}  // namespace quire::bench
