#include "apps/bench_serve/answer_reader.h"

#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <fmt/format.h>

namespace quire::bench {

namespace http = boost::beast::http;

AnswerReader::AnswerReader(OnEvent on_event)
    : on_event_(std::move(on_event)), events_([this](const SseEvent& event) {
        if (event.data == "[DONE]") {
          stream_done_ = true;
        } else {
          on_event_(scan_event(event.data), event.data);
        }
        return Status();
      }) {
  eager(true);
  header_limit(64 * 1024);
  body_limit(boost::none);
}

Status AnswerReader::feed(std::string_view bytes) {
  touched_ = touched_ || !bytes.empty();
  const bool from_held = !held_.empty();
  if (from_held) held_ += bytes;
  std::string_view rest = from_held ? std::string_view(held_) : bytes;
  while (!rest.empty() && !is_done()) {
    Error error;
    const std::size_t used = put(boost::asio::const_buffer(rest.data(), rest.size()), error);
    rest.remove_prefix(used);
    if (error == http::error::need_more || (!error && used == 0)) break;
    if (!body_error_.ok()) return body_error_;
    if (error) return Status::io_error(fmt::format("no HTTP: {}", error.message()));
  }
  if (is_done() && !rest.empty()) return Status::io_error("bytes follow the answer's end");
  held_ = std::string(rest);
  return {};
}

Status AnswerReader::close() {
  if (is_done()) return {};
  Error error;
  if (got_some()) put_eof(error);
  if (!error && is_done()) return {};
  return Status::io_error(touched_ ? "closed in the middle of the answer"
                                   : "closed before the answer");
}

void AnswerReader::on_request_impl(Verb, Text, Text, int, Error&) {}

void AnswerReader::on_response_impl(int code, Text, int, Error&) { status_ = code; }

void AnswerReader::on_field_impl(Field name, Text, Text value, Error&) {
  constexpr std::string_view kEvents = "text/event-stream";
  if (name != Field::content_type) return;
  event_stream_ = boost::beast::iequals(value.substr(0, kEvents.size()), kEvents);
}

void AnswerReader::on_header_impl(Error&) {}
void AnswerReader::on_body_init_impl(const boost::optional<std::uint64_t>&, Error&) {}
void AnswerReader::on_chunk_header_impl(std::uint64_t, Text, Error&) {}
void AnswerReader::on_finish_impl(Error&) {}

std::size_t AnswerReader::on_body_impl(Text body, Error& error) {
  take_body(body, error);
  return body.size();
}

std::size_t AnswerReader::on_chunk_body_impl(std::uint64_t, Text body, Error& error) {
  take_body(body, error);
  return body.size();
}

void AnswerReader::take_body(std::string_view piece, Error& error) {
  if (event_stream_ && status_ == 200) {
    body_error_ = events_.feed(piece);
  } else if (body_.size() + piece.size() <= kMaxBody) {
    body_ += piece;
  } else {
    body_error_ = Status::io_error(fmt::format("an answer of more than {} bytes", kMaxBody));
  }
  if (!body_error_.ok()) error = http::error::body_limit;
}

}  // namespace quire::bench
