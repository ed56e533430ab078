// Reads the answers that a server sends on one connection, piece by piece, and counts what is in
// them. It looks at as little as it can, so that one core drives thousands of streams: heads are
// parsed, event streams are cut into lines, no JSON is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace quire::load {

class ResponseScanner {
 public:
  explicit ResponseScanner(bool keep_body = false) : keep_body_(keep_body) {}

  // Takes bytes in and returns how many were used: all of them, or up to the end of an answer,
  // after which next() has to be called. Nothing is used after an error.
  std::size_t feed(std::string_view bytes);
  // The server has closed the connection: ends an answer that goes on until then.
  void close();
  // Makes ready for the next answer on the connection. Counts go on.
  void next();

  bool done() const { return phase_ == Phase::kDone; }  // the answer is complete
  const std::string& error() const { return error_; }   // what is no HTTP; empty: nothing
  bool head_done() const { return phase_ >= Phase::kLength; }
  bool untouched() const { return phase_ == Phase::kHead && head_.empty(); }
  bool keep_alive() const { return keep_alive_; }
  int status() const { return status_; }  // 0 before the first head
  const std::string& head() const { return head_; }
  const std::string& body() const { return body_; }  // of this answer, if it is kept

  // Server-sent events, over all answers.
  std::int64_t num_events() const { return num_events_; }  // with data, [DONE] and errors apart
  std::int64_t num_comments() const { return num_comments_; }
  std::int64_t num_errors() const { return num_errors_; }        // events that carry an error
  bool stream_done() const { return stream_done_; }              // [DONE] came in this answer
  const std::string& last_event() const { return last_event_; }  // its data
  // "completion_tokens" of the last event or of a kept body; -1 if it says nothing.
  std::int64_t completion_tokens() const;

 private:
  enum class Phase : std::uint8_t {
    kHead,
    kLength,  // a body of known length
    kUntilClose,
    kChunkSize,
    kChunkData,
    kChunkEnd,
    kTrailer,
    kDone,
    kError,
  };

  std::size_t take_head(std::string_view bytes);
  void parse_head();
  std::size_t take_line(std::string_view bytes);
  void end_line();
  void scan_body(std::string_view piece);
  void scan_event_line();
  void fail(std::string message);

  bool keep_body_;
  Phase phase_ = Phase::kHead;
  bool keep_alive_ = true;
  bool event_stream_ = false;
  bool stream_done_ = false;
  bool in_event_ = false;  // a data line has come, its empty line has not
  int status_ = 0;
  std::uint64_t remaining_ = 0;  // of the body or of the chunk
  std::string head_;
  std::string line_;        // of the framing: chunk sizes, trailers
  std::string event_line_;  // of the event stream
  std::string last_event_;
  std::string body_;
  std::string error_;
  std::int64_t num_events_ = 0;
  std::int64_t num_comments_ = 0;
  std::int64_t num_errors_ = 0;
};

}  // namespace quire::load
