#include "apps/bench_serve/exchange.h"

#include <algorithm>
#include <chrono>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fmt/format.h>

#include "apps/bench_serve/answer_reader.h"
#include "apps/error_message.h"
#include "serve/http/field_text.h"

namespace quire::bench {

namespace asio = boost::asio;

namespace {

using Endpoint = ServerAddress::Endpoint;

struct Attempt {
  bool connected = false;
  boost::system::error_code error;  // of the connection
  Status status;                    // of the answer
};

asio::awaitable<void> ask(Connection& connection, Endpoint endpoint, std::string_view head,
                          std::string_view body, AnswerReader& reader, Attempt& attempt) {
  attempt.error = co_await connection.open(endpoint);
  if (attempt.error) co_return;
  attempt.connected = true;
  attempt.error = co_await connection.write(head, body);
  while (!attempt.error && attempt.status.ok() && !reader.done()) {
    attempt.error = co_await connection.read();
    if (!attempt.error) {
      attempt.status = reader.feed(connection.received());
    } else if (attempt.error == asio::error::eof) {
      attempt.error = {};
      attempt.status = reader.close();
    }
  }
}

}  // namespace

std::string request_head(const BaseUrl& url, std::string_view route, const std::string& api_key,
                         std::size_t body_bytes, std::string_view accept) {
  std::string head =
      fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: quire-bench\r\nAccept: {}\r\n",
                  body_bytes == 0 ? "GET" : "POST", url.target(route), url.authority, accept);
  if (!api_key.empty()) head += fmt::format("Authorization: Bearer {}\r\n", api_key);
  if (body_bytes > 0) {
    head += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", body_bytes);
  }
  return head + "\r\n";
}

std::string message_of(std::string_view body) {
  constexpr std::size_t kMaxMessage = 160;
  std::string message(body);
  if (const auto parsed = parse_json(body, "answer"); parsed.ok()) {
    if (auto found = error_message(*parsed)) message = *std::move(found);
  }
  if (message.size() > kMaxMessage) message = clipped(message, kMaxMessage) + "...";
  std::ranges::replace_if(
      message, [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  return message;
}

Result<Answer> fetch(ServerAddress& address, std::string_view route, const std::string& api_key,
                     std::string_view body, double seconds) {
  const std::string head =
      request_head(address.url(), route, api_key, body.size(), "application/json");
  const std::string what = address.url().text();
  boost::system::error_code last;
  for (const Endpoint& endpoint : std::vector<Endpoint>(address.endpoints())) {
    asio::io_context context(1);
    Connection connection(context, address);
    AnswerReader reader([](const EventFacts&, std::string_view) {});
    Attempt attempt;
    bool late = false;
    asio::steady_timer timer(context, std::chrono::duration_cast<std::chrono::nanoseconds>(
                                          std::chrono::duration<double>(seconds)));
    timer.async_wait([&](boost::system::error_code cancelled) {
      late = !cancelled;
      connection.close();
    });
    asio::co_spawn(context, ask(connection, endpoint, head, body, reader, attempt),
                   [&timer](std::exception_ptr) { timer.cancel(); });
    context.run();
    if (reader.done()) {
      address.settle(endpoint);
      return Answer{.status = reader.status(), .body = reader.body()};
    }
    if (late) {
      return Status::unavailable(fmt::format("{}: no answer within {:g} s", what, seconds));
    }
    if (attempt.connected) {
      return Status::unavailable(
          fmt::format("{}: {}", what,
                      attempt.error ? attempt.error.message() : attempt.status.message()),
          "check --base-url: is it an HTTP server?");
    }
    last = attempt.error;
  }
  return Status::unavailable(fmt::format("{}: {}", what, last.message()),
                             "check --base-url, and that the server runs");
}

}  // namespace quire::bench
