#include "serve/http/connection.h"

#include <array>
#include <exception>
#include <functional>
#include <new>
#include <type_traits>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include "base/log.h"
#include "serve/http/body_pace.h"
#include "serve/http/closes_at_end.h"
#include "serve/http/coroutine_event.h"
#include "serve/http/dispatch.h"
#include "serve/http/gate.h"
#include "serve/http/http_error.h"
#include "serve/http/request_parser.h"
#include "serve/http/response_head.h"

namespace quire {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
using asio::awaitable;

namespace {

constexpr auto kUse = asio::as_tuple(asio::use_awaitable);
// What a client may send ahead of the answer that it waits for.
constexpr std::size_t kMaxReadAhead = 64 * 1024;
constexpr std::size_t kReadBytes = 4 * 1024;
constexpr std::chrono::seconds kLinger{2};

constexpr std::chrono::milliseconds kNever = std::chrono::hours(24 * 365);

constexpr std::string_view kNoRoom =
    "this server has no room for the request's body now; try again later";

// An answer with one of these statuses ends with its header, which announces no length.
bool has_content(int status) { return status != 204 && status != 304; }

// Stream is a socket or a TLS stream over one.
template <typename Stream>
class Session final : public Connection, public std::enable_shared_from_this<Session<Stream>> {
 public:
  template <typename... StreamArgs>
  explicit Session(ConnectionShared& shared, StreamArgs&&... args)
      : shared_(shared),
        stream_(std::forward<StreamArgs>(args)...),
        event_(stream_.get_executor()),
        room_(stream_.get_executor()) {
    ++shared_.connections;
    ++shared_.connections_total;
    set_deadline(shared_.config.header_timeout);
  }
  ~Session() override {
    if (answer_) answer_->disconnect();
    --shared_.connections;
  }

  void start() override {
    spawn([self = this->shared_from_this()] { return self->run(); });
  }

  void tick(TimePoint now) override {
    if (now >= deadline_) {
      if (phase_ != Phase::kReading) return close();
      timed_out_ = true;
      event_.notify();
      set_deadline(kLinger);
      phase_ = Phase::kClosing;
      return;
    }
    if (answer_) event_.notify();  // a wake-up may have had no memory
    if (answer_ && now - last_write_ >= shared_.config.keep_alive_interval) {
      if (answer_->keep_alive()) last_write_ = now;
    }
  }

  void close() override {
    boost::system::error_code ignored;
    stream_.lowest_layer().close(ignored);
    eof_ = true;
    event_.notify();
    room_.notify();
  }

 private:
  // What the deadline applies to.
  enum class Phase {
    kIdle,     // between requests, or a TLS handshake
    kReading,  // a request has begun
    kAnswering,
    kClosing,
  };

  template <typename Coroutine>
  void spawn(Coroutine coroutine) {
    const auto ended = [self = this->shared_from_this()](std::exception_ptr error) {
      if (!error) return;
      self->close();
      try {
        std::rethrow_exception(error);
      } catch (const std::exception& exception) {
        log_warning("a connection was closed: {}", exception.what());
      }
    };
    asio::co_spawn(stream_.get_executor(), std::move(coroutine), ended);
  }

  awaitable<void> run() {
    const ClosesAtEnd closes(*this);
    if constexpr (!std::is_same_v<Stream, StreamSocket>) {
      const auto [error] = co_await stream_.async_handshake(ssl::stream_base::server, kUse);
      if (error) co_return;
    }
    spawn([self = this->shared_from_this()] { return self->read_loop(); });
    bool again = true;
    while (again) again = co_await serve_one();
    co_await linger();
  }

  // Reads whatever the client sends, all the time, so that a disconnect is noticed at once.
  awaitable<void> read_loop() {
    ClosesAtEnd closes(*this);
    while (!eof_) {
      if (in_.size() >= kMaxReadAhead) {
        // Without reading on, a disconnect would not be noticed.
        if (answer_) co_return;
        co_await room_.wait();
        continue;
      }
      const auto [error, count] = co_await stream_.async_read_some(asio::buffer(scratch_), kUse);
      if (error) {
        eof_ = true;
      } else if (!take_in({scratch_.data(), count})) {
        if (phase_ != Phase::kReading) co_return;
        no_room_ = true;  // whoever reads the request answers, and closes
        event_.notify();
        break;
      }
      event_.notify();
    }
    closes.dismiss();  // what has come is still answered
  }

  // False: there is no memory for what has come.
  bool take_in(std::string_view bytes) {
    try {
      in_ += bytes;
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  // One request and its answer; false: the connection is to be closed.
  awaitable<bool> serve_one() {
    if (in_.empty()) {
      phase_ = Phase::kIdle;
      set_deadline(served_any_ ? shared_.config.idle_timeout : shared_.config.header_timeout);
    }
    while (in_.empty() && !eof_) co_await event_.wait();
    if (in_.empty()) co_return false;
    phase_ = Phase::kReading;
    set_deadline(shared_.config.header_timeout);

    RequestParser parser({.max_header_bytes = shared_.config.max_header_bytes,
                          .max_headers = shared_.config.max_headers,
                          .max_body_bytes = shared_.config.max_body_bytes});
    if (!co_await feed_while(parser, RequestParser::State::kHeader)) co_return false;
    if (parser.state() == RequestParser::State::kError) {
      co_return co_await refuse(parser, http_error(parser.error_status(), parser.error_message()));
    }
    Admission admission =
        admit(parser.request(), parser.has_body(), shared_.router, shared_.access);
    extra_headers_ = std::move(admission.cors_headers);
    extra_headers_.push_back({"X-Request-Id", request_id(parser.request())});
    if (admission.refusal) co_return co_await refuse(parser, *std::move(admission.refusal));

    const Route& route = *admission.route;
    BodyBudget::Body body(
        shared_.bodies, [this, &parser] { give_way(parser); }, std::chrono::steady_clock::now());
    parser.set_max_body_bytes(route.max_body_bytes > 0 ? route.max_body_bytes
                                                       : shared_.config.max_body_bytes);
    if (!co_await read_body(parser, body)) {
      // Before the answer, which a client that is slow may take its time to read.
      body.release();
      parser.drop_body();
      if (!late_body_.empty()) co_return co_await refuse(parser, http_error(408, late_body_));
      if (no_room_) co_return co_await refuse(parser, busy(kNoRoom));
      if (parser.state() != RequestParser::State::kError) co_return false;
      co_return co_await refuse(parser, http_error(parser.error_status(), parser.error_message()));
    }
    body.complete();
    keep_alive_ = parser.keep_alive();
    http_1_0_ = parser.http_1_0();
    HttpRequest request = parser.take_request();
    request.path_params = std::move(admission.path_params);
    request.caller = std::move(admission.caller);
    request.request_id = extra_headers_.back().value;
    request.received = std::chrono::steady_clock::now();
    head_only_ = request.method == "HEAD";
    co_return co_await answer(route, std::move(request));
  }

  // Feeds what has come while the parser is in `state`; false: the client has gone, or is too slow.
  awaitable<bool> feed_while(RequestParser& parser, RequestParser::State state) {
    while (true) {
      in_.erase(0, parser.feed(in_));
      room_.notify();
      if (parser.state() != state) co_return true;
      const std::size_t before = in_.size();
      while (in_.size() == before && !eof_ && !timed_out_ && !no_room_) co_await event_.wait();
      if (no_room_) {
        co_await refuse(parser, busy(kNoRoom));
        co_return false;
      }
      if (timed_out_) {
        const HttpResponse late = http_error(408, "the request did not come in time");
        co_await refuse(parser, late);
        co_return false;
      }
      if (in_.size() == before) co_return false;
    }
  }

  // False: it is refused, or the client has gone.
  awaitable<bool> read_body(RequestParser& parser, BodyBudget::Body& body) {
    if (parser.state() == RequestParser::State::kError) co_return false;
    if (parser.has_body() && parser.expects_continue() && in_.empty()) {
      if (!co_await write_all("HTTP/1.1 100 Continue\r\n\r\n")) co_return false;
    }
    const TimePoint begin = std::chrono::steady_clock::now();
    while (true) {
      if (!feed_body(parser, body)) co_return false;
      if (parser.state() == RequestParser::State::kDone) co_return true;
      if (parser.state() == RequestParser::State::kError) co_return false;
      phase_ = Phase::kReading;
      const BodyDeadline deadline = body_deadline(
          shared_.config, begin, std::chrono::steady_clock::now(), parser.request().body.size());
      deadline_ = deadline.at;
      const std::size_t before = in_.size();
      while (in_.size() == before && !eof_ && !timed_out_ && !no_room_) co_await event_.wait();
      if (no_room_) co_return false;
      if (timed_out_) {
        late_body_ = deadline.reason;
        co_return false;
      }
      if (in_.size() == before) co_return false;
    }
  }

  // False: there is no room for what has come.
  bool feed_body(RequestParser& parser, BodyBudget::Body& body) {
    try {
      in_.erase(0, parser.feed(in_));
    } catch (const std::bad_alloc&) {
      no_room_ = true;
      return false;
    }
    room_.notify();
    const std::string& received = parser.request().body;
    no_room_ = !body.update(received.size(), received.capacity(), std::chrono::steady_clock::now());
    return !no_room_;
  }

  // Another body needs the room of this one, which comes slowly.
  void give_way(RequestParser& parser) {
    no_room_ = true;
    parser.drop_body();
    event_.notify();
  }

  // An answer to a request that no handler sees. The connection goes on only where the request has
  // no body that would have to be read first.
  awaitable<bool> refuse(const RequestParser& parser, HttpResponse response) {
    const bool intact = parser.state() == RequestParser::State::kHeaderDone && !parser.has_body();
    const ResponseFraming framing = {
        .http_1_0 = false,
        .keep_alive = intact && parser.keep_alive() && !shared_.draining,
        .chunked = false,
        .content_length = has_content(response.status)
                              ? std::optional<std::uint64_t>(response.body.size())
                              : std::nullopt};
    std::string text = response_head(response, framing, extra_headers_);
    const bool head_only =
        parser.state() != RequestParser::State::kError && parser.request().method == "HEAD";
    if (!head_only) text += response.body;
    phase_ = Phase::kAnswering;
    const bool written = co_await write_all(text);
    served_any_ = true;
    co_return written&& framing.keep_alive;
  }

  awaitable<bool> answer(const Route& route, HttpRequest request) {
    phase_ = Phase::kAnswering;
    set_deadline(kNever);
    auto pending = std::make_shared<PendingAnswer>(std::move(request), shared_.outbox,
                                                   shared_.config.max_unsent_bytes);
    pending->wake_connection = [weak = this->weak_from_this()] {
      if (const auto self = weak.lock()) self->wake();
    };
    answer_ = pending;
    last_write_ = std::chrono::steady_clock::now();
    const CountedExchange counted(shared_);
    dispatch(shared_, route, pending);
    const bool delivered = co_await deliver(*pending);
    if (!delivered) {
      ++shared_.disconnects;
      if (pending->overflowed()) {
        ++shared_.slow_readers;
        drop();
      }
      pending->disconnect();
    }
    answer_.reset();
    served_any_ = true;
    co_return delivered&& keep_alive_;
  }

  // The answer has gone on. A client that has let its buffer overflow is dropped at once: a write
  // may be waiting for it.
  void wake() {
    if (answer_ && answer_->overflowed()) return drop();
    event_.notify();
  }

  // Closes together with what the kernel still has for the client: it does not read, so a plain
  // close would never reach it.
  void drop() {
    boost::system::error_code ignored;
    stream_.lowest_layer().set_option(asio::socket_base::linger(true, 0), ignored);
    close();
  }

  // Writes the answer as it comes; false: the client has not read all of it.
  awaitable<bool> deliver(PendingAnswer& pending) {
    bool chunked = false;
    while (true) {
      PendingAnswer::Unsent unsent = pending.take_unsent();
      if (unsent.overflow || unsent.cut_off) co_return false;
      if (eof_ && !unsent.finished) co_return false;
      std::string out;
      if (unsent.head) {
        chunked = unsent.streaming && !http_1_0_;
        keep_alive_ = keep_alive_ && (chunked || !unsent.streaming) && !shared_.draining;
        ResponseFraming framing = {.http_1_0 = http_1_0_,
                                   .keep_alive = keep_alive_,
                                   .chunked = chunked,
                                   .content_length = std::nullopt};
        if (!unsent.streaming && has_content(unsent.head->status)) {
          framing.content_length = unsent.body.size();
        }
        out = response_head(*unsent.head, framing, extra_headers_);
      }
      if (!head_only_) append_content(out, unsent.body, unsent.finished, chunked);
      if (!out.empty() && !co_await write_all(out)) co_return false;
      if (unsent.finished) co_return true;
      if (out.empty()) co_await event_.wait();
    }
  }

  awaitable<bool> write_all(std::string_view text) {
    while (!text.empty()) {
      set_deadline(shared_.config.write_timeout);
      const auto [error, count] =
          co_await stream_.async_write_some(asio::buffer(text.data(), text.size()), kUse);
      if (error) co_return false;
      text.remove_prefix(count);
    }
    last_write_ = std::chrono::steady_clock::now();
    set_deadline(kNever);
    co_return true;
  }

  // Lets the client read a last answer: closing while it still sends would discard it.
  awaitable<void> linger() {
    phase_ = Phase::kClosing;
    set_deadline(kLinger);
    if constexpr (std::is_same_v<Stream, StreamSocket>) {
      boost::system::error_code ignored;
      stream_.shutdown(asio::socket_base::shutdown_send, ignored);
    } else if (!eof_) {
      co_await stream_.async_shutdown(kUse);
    }
    while (!eof_) {
      in_.clear();
      room_.notify();
      co_await event_.wait();
    }
  }

  std::string request_id(const HttpRequest& request) {
    const std::string* given = request.header("X-Request-Id");
    if (given != nullptr && valid_request_id(*given)) return *given;
    return fmt::format("{}-{}", shared_.request_id_prefix, shared_.next_request_number++);
  }

  void set_deadline(std::chrono::milliseconds timeout) {
    deadline_ = std::chrono::steady_clock::now() + timeout;
  }

  ConnectionShared& shared_;
  Stream stream_;
  CoroutineEvent event_;  // something came, or the answer went on
  CoroutineEvent room_;   // the reader may go on
  std::string in_;        // read, not yet used
  std::array<char, kReadBytes> scratch_;
  bool eof_ = false;
  bool timed_out_ = false;
  std::string_view late_body_;  // what was too slow about the body that did not come in time
  bool no_room_ = false;        // for the request that is being received
  bool served_any_ = false;
  Phase phase_ = Phase::kIdle;
  TimePoint deadline_;
  TimePoint last_write_;
  // Of the request that is being answered.
  std::shared_ptr<PendingAnswer> answer_;
  std::vector<HttpHeader> extra_headers_;
  bool keep_alive_ = true;
  bool http_1_0_ = false;
  bool head_only_ = false;
};

}  // namespace

std::shared_ptr<Connection> make_connection(StreamSocket socket, ConnectionShared& shared) {
  return std::make_shared<Session<StreamSocket>>(shared, std::move(socket));
}

std::shared_ptr<Connection> make_tls_connection(StreamSocket socket, ssl::context& context,
                                                ConnectionShared& shared) {
  return std::make_shared<Session<ssl::stream<StreamSocket>>>(shared, std::move(socket), context);
}

}  // namespace quire
