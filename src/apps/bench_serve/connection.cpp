#include "apps/bench_serve/connection.h"

#include <array>
#include <cerrno>
#include <sys/socket.h>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <fmt/format.h>

namespace quire::bench {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
using asio::ip::tcp;

namespace {

constexpr auto kUse = asio::as_tuple(asio::use_awaitable);
// Of one read: many tokens' events, and little memory for thousands of connections.
constexpr std::size_t kReadBytes = 8 * 1024;

}  // namespace

Result<ServerAddress> ServerAddress::resolve(const BaseUrl& url, bool insecure) {
  ServerAddress address;
  address.url_ = url;
  asio::io_context context;
  tcp::resolver resolver(context);
  boost::system::error_code error;
  const auto found = resolver.resolve(url.host, url.port, error);
  if (error) {
    return Status::unavailable(fmt::format("{}: {}: {}", url.text(), url.host, error.message()),
                               "check --base-url");
  }
  for (const auto& entry : found) address.endpoints_.push_back(entry.endpoint());
  if (!url.tls) return address;
  address.tls_ = std::make_shared<ssl::context>(ssl::context::tls_client);
  if (!insecure) {
    address.tls_->set_default_verify_paths(error);
    if (error) return Status::io_error(fmt::format("certificates: {}", error.message()));
    address.tls_->set_verify_mode(ssl::verify_peer, error);
    address.tls_->set_verify_callback(ssl::host_name_verification(url.host), error);
  }
  return address;
}

Connection::Connection(asio::io_context& context, const ServerAddress& address)
    : address_(address),
      tls_(address.tls() == nullptr
               ? std::nullopt
               : std::make_optional<ssl::stream<Socket>>(Socket(context), *address.tls())),
      plain_(address.tls() == nullptr ? std::make_optional<Socket>(context) : std::nullopt),
      socket_(tls_ ? tls_->next_layer() : *plain_),
      buffer_(kReadBytes) {}

Connection::Awaitable<Connection::Error> Connection::open(const ServerAddress::Endpoint& endpoint) {
  const auto [error] = co_await socket_.async_connect(endpoint, kUse);
  if (error) co_return error;
  Error ignored;
  socket_.set_option(tcp::no_delay(true), ignored);
  if (!tls_) co_return error;
  // Servers of several names choose their certificate by it; an address is no name.
  const std::string& host = address_.url().host;
  asio::ip::make_address(host, ignored);
  if (ignored) SSL_set_tlsext_host_name(tls_->native_handle(), host.c_str());
  const auto [failed] = co_await tls_->async_handshake(ssl::stream_base::client, kUse);
  co_return failed;
}

Connection::Awaitable<Connection::Error> Connection::write(std::string_view head,
                                                           std::string_view body) {
  const std::array<asio::const_buffer, 2> buffers = {asio::buffer(head), asio::buffer(body)};
  if (tls_) {
    const auto [error, count] = co_await asio::async_write(*tls_, buffers, kUse);
    co_return error;
  }
  const auto [error, count] = co_await asio::async_write(socket_, buffers, kUse);
  co_return error;
}

Connection::Awaitable<Connection::Error> Connection::read() {
  received_ = 0;
  if (tls_) {
    const auto [error, count] = co_await tls_->async_read_some(asio::buffer(buffer_), kUse);
    received_ = count;
    // A server that closes without TLS's own farewell has closed.
    co_return error == ssl::error::stream_truncated ? Error(asio::error::eof) : error;
  }
  const auto [error, count] = co_await socket_.async_read_some(asio::buffer(buffer_), kUse);
  received_ = count;
  co_return error;
}

bool Connection::usable() {
  char byte = 0;
  const ssize_t count = ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  // Of TLS what lies there can only be its farewell: other records came with the answer before.
  return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

void Connection::close() {
  Error ignored;
  socket_.close(ignored);
}

}  // namespace quire::bench
