// Reads one HTTP answer piece by piece: its head, its body, and where that is a stream of events,
// what they say. Beast's parser does the framing; a token's event is searched for what counts, not
// parsed as JSON.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <boost/beast/http/basic_parser.hpp>

#include "apps/bench_serve/event_scan.h"
#include "apps/chat/sse_parser.h"

namespace quire::bench {

class AnswerReader : private boost::beast::http::basic_parser<false> {
 public:
  // Called for each event but [DONE], whose coming stream_done() tells.
  using OnEvent = std::function<void(const EventFacts& facts, std::string_view data)>;

  explicit AnswerReader(OnEvent on_event);

  // Takes the next bytes that came. kIoError for what is no HTTP, and for more than an event or a
  // head may have; nothing may be fed after an error. Bytes behind the answer are an error, too.
  Status feed(std::string_view bytes);
  // The server has closed the connection. kIoError unless the answer is complete.
  Status close();

  bool done() const { return is_done(); }                      // the answer is complete
  bool reusable() const { return is_done() && keep_alive(); }  // the connection may go on
  bool touched() const { return touched_; }                    // a byte of the answer has come
  int status() const { return status_; }                       // 0 before the head
  bool is_event_stream() const { return event_stream_; }
  bool stream_done() const { return stream_done_; }
  // Of an answer that is no event stream, at most kMaxBody bytes of it.
  const std::string& body() const { return body_; }

  static constexpr std::size_t kMaxBody = std::size_t{4} << 20;

 private:
  using Field = boost::beast::http::field;
  using Verb = boost::beast::http::verb;
  using Text = boost::beast::string_view;
  using Error = boost::beast::error_code;

  void on_request_impl(Verb, Text, Text, int, Error& error) override;
  void on_response_impl(int code, Text reason, int version, Error& error) override;
  void on_field_impl(Field name, Text name_text, Text value, Error& error) override;
  void on_header_impl(Error& error) override;
  void on_body_init_impl(const boost::optional<std::uint64_t>& length, Error& error) override;
  std::size_t on_body_impl(Text body, Error& error) override;
  void on_chunk_header_impl(std::uint64_t size, Text extensions, Error& error) override;
  std::size_t on_chunk_body_impl(std::uint64_t remain, Text body, Error& error) override;
  void on_finish_impl(Error& error) override;

  void take_body(std::string_view piece, Error& error);

  OnEvent on_event_;
  SseParser events_;
  std::string held_;  // bytes that the framing needs more of
  std::string body_;
  Status body_error_;
  int status_ = 0;
  bool touched_ = false;
  bool event_stream_ = false;
  bool stream_done_ = false;
};

}  // namespace quire::bench
