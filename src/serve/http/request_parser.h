// Bytes of a connection to requests: Beast's parser with this server's limits. Bytes go in as they
// come, in pieces of any size; no socket is needed, which is how it is fuzzed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "serve/http/chunked_decoder.h"
#include "serve/http/message.h"

namespace quire {

struct RequestLimits {
  std::uint32_t max_header_bytes = 16 * 1024;
  std::uint32_t max_headers = 100;
  std::uint64_t max_body_bytes = 32ULL << 20;
};

class RequestParser {
 public:
  explicit RequestParser(const RequestLimits& limits);
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  enum class State {
    kHeader,      // more bytes are needed
    kHeaderDone,  // feed() has stopped behind the header; the next call goes on with the body
    kBody,        // more bytes are needed
    kDone,
    kError,  // error_status() and error_message() say which; the connection cannot go on
  };

  // Takes bytes in and returns how many were used. It stops where the header ends and where the
  // request ends; what is left belongs to the next call.
  std::size_t feed(std::string_view bytes);
  State state() const { return state_; }

  // Once the header is done. Replaces the limit of the body, which counts from here.
  void set_max_body_bytes(std::uint64_t max_body_bytes);
  bool keep_alive() const;
  bool http_1_0() const;
  bool expects_continue() const;
  bool has_body() const;  // it announces one
  const HttpRequest& request() const;
  void drop_body();            // gives its memory back; nothing more is to be fed
  HttpRequest take_request();  // when done

  int error_status() const { return error_status_; }  // 400, 413, 431, 501, 505
  const std::string& error_message() const { return error_message_; }

 private:
  class Parser;
  std::size_t feed_header(std::string_view bytes);
  std::size_t skip_empty_lines(std::string_view bytes);
  void end_header();
  void check_transfer_encoding();
  void check_host();
  void check_origin();
  std::size_t feed_length(std::string_view bytes);
  std::size_t feed_chunks(std::string_view bytes);
  void fail(int status, std::string message);

  static constexpr int kMaxEmptyLines = 4;  // before a request

  std::unique_ptr<Parser> parser_;
  ChunkedDecoder chunks_;
  std::uint64_t max_body_bytes_;
  std::uint64_t body_left_ = 0;  // of an announced length
  int empty_lines_ = 0;
  bool begun_ = false;  // something else than empty lines has come
  State state_ = State::kHeader;
  int error_status_ = 0;
  std::string error_message_;
};

}  // namespace quire
