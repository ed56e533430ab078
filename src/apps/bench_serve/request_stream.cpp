#include "apps/bench_serve/request_stream.h"

#include <fmt/format.h>

#include "apps/bench_serve/exchange.h"

namespace quire::bench {

RequestStream::RequestStream(Connection& connection, RequestRecord& record, RunClock& clock)
    : connection_(connection),
      record_(record),
      clock_(clock),
      reader_([this](const EventFacts& facts, std::string_view data) { on_event(facts, data); }) {}

boost::asio::awaitable<std::optional<Failure>> RequestStream::run(std::string_view head,
                                                                  std::string_view body) {
  // A server may refuse and close while the body is still on its way; what it said is read then.
  const auto unsent = co_await connection_.write(head, body);
  while (!reader_.done()) {
    const auto error = co_await connection_.read();
    read_at_ = clock_.now();
    Status status;
    if (!error) {
      status = reader_.feed(connection_.received());
    } else if (error == boost::asio::error::eof) {
      status = reader_.close();
    } else {
      status = Status::io_error((reader_.touched() || !unsent ? error : unsent).message());
    }
    if (status.ok()) continue;
    // Some servers end the connection instead of the stream.
    if (error && reader_.stream_done()) break;
    co_return Failure{
        .kind = reader_.touched() ? FailureKind::kBrokenStream : FailureKind::kConnection,
        .message = status.message()};
  }
  record_.ended = read_at_;
  co_return verdict();
}

void RequestStream::on_event(const EventFacts& facts, std::string_view data) {
  if (facts.has_text) {
    const bool is_first = record_.text_events == 0;
    clock_.on_text(read_at_,
                   is_first ? std::nullopt : std::optional<double>(read_at_ - record_.last_text));
    if (is_first) record_.first_text = read_at_;
    record_.last_text = read_at_;
    ++record_.text_events;
    if (!record_.usage_given) record_.output_tokens = record_.text_events;
  }
  finished_ = finished_ || facts.finished;
  if (facts.usage) {
    record_.usage_given = true;
    record_.prompt_tokens = facts.usage->prompt_tokens;
    record_.cached_tokens = facts.usage->cached_tokens;
    record_.output_tokens = facts.usage->completion_tokens;
  }
  if (facts.is_error && server_error_.empty()) server_error_ = message_of(data);
}

std::optional<Failure> RequestStream::verdict() const {
  if (reader_.status() != 200) {
    return Failure{
        .kind = FailureKind::kHttpStatus,
        .message = fmt::format("HTTP {}: {}", reader_.status(), message_of(reader_.body()))};
  }
  if (!reader_.is_event_stream()) {
    return Failure{.kind = FailureKind::kBrokenStream, .message = "the answer is no event stream"};
  }
  if (!server_error_.empty()) {
    return Failure{.kind = FailureKind::kServerError, .message = server_error_};
  }
  if (!finished_ && !reader_.stream_done()) {
    return Failure{.kind = FailureKind::kBrokenStream,
                   .message = "the stream ended without a finish_reason or [DONE]"};
  }
  if (record_.text_events == 0) {
    return Failure{.kind = FailureKind::kNoText, .message = "a complete stream without text"};
  }
  return std::nullopt;
}

}  // namespace quire::bench
