#include "serve/http/request_parser.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <fmt/format.h>

#include "serve/http/authority.h"
#include "serve/http/field_text.h"
#include "serve/http/target.h"

namespace quire {

namespace http = boost::beast::http;
using BeastText = boost::beast::string_view;
using ErrorCode = boost::beast::error_code;

namespace {

std::string to_string(BeastText text) { return {text.data(), text.size()}; }

}  // namespace

// The header is Beast's to parse. The body is not: its own string body reserves what a client
// announces, and see ChunkedDecoder.
class RequestParser::Parser final : public http::basic_parser<true> {
 public:
  explicit Parser(const RequestLimits& limits) : max_headers_(limits.max_headers) {
    header_limit(limits.max_header_bytes);
    body_limit(boost::none);
    skip(true);
  }

  std::uint32_t max_headers() const { return max_headers_; }

  HttpRequest request;
  bool http_1_0 = false;
  bool target_ok = true;
  std::optional<std::string> target_authority;
  bool too_many_headers = false;
  bool unsupported_version = false;

 private:
  void on_request_impl(http::verb /*verb*/, BeastText method, BeastText target, int version,
                       ErrorCode& error) override {
    request.method = to_string(method);
    http_1_0 = version == 10;
    unsupported_version = version != 10 && version != 11;
    auto parsed = quire::parse_target({target.data(), target.size()});
    target_ok = parsed.has_value();
    if (parsed) {
      target_authority = std::move(parsed->authority);
      request.path = std::move(parsed->path);
      request.query = std::move(parsed->query);
    }
    error = {};
  }
  void on_response_impl(int /*code*/, BeastText /*reason*/, int /*version*/,
                        ErrorCode& error) override {
    error = http::error::bad_version;
  }
  void on_field_impl(http::field /*field*/, BeastText name, BeastText value,
                     ErrorCode& error) override {
    too_many_headers = request.headers.size() >= max_headers_;
    if (too_many_headers) {
      error = http::error::header_limit;
      return;
    }
    request.headers.push_back({to_string(name), to_string(value)});
    error = {};
  }
  void on_header_impl(ErrorCode& error) override { error = {}; }
  void on_body_init_impl(const boost::optional<std::uint64_t>& /*length*/,
                         ErrorCode& error) override {
    error = {};
  }
  std::size_t on_body_impl(BeastText body, ErrorCode& error) override {
    error = {};
    return body.size();
  }
  void on_chunk_header_impl(std::uint64_t /*size*/, BeastText /*extensions*/,
                            ErrorCode& error) override {
    error = {};
  }
  std::size_t on_chunk_body_impl(std::uint64_t /*remain*/, BeastText body,
                                 ErrorCode& error) override {
    error = {};
    return body.size();
  }
  void on_finish_impl(ErrorCode& error) override { error = {}; }

  std::uint32_t max_headers_;
};

RequestParser::RequestParser(const RequestLimits& limits)
    : parser_(std::make_unique<Parser>(limits)), max_body_bytes_(limits.max_body_bytes) {}
RequestParser::~RequestParser() = default;

std::size_t RequestParser::feed(std::string_view bytes) {
  if (state_ == State::kHeader) return feed_header(bytes);
  if (state_ == State::kHeaderDone) state_ = State::kBody;
  if (state_ != State::kBody) return 0;
  return parser_->chunked() ? feed_chunks(bytes) : feed_length(bytes);
}

std::size_t RequestParser::feed_header(std::string_view bytes) {
  const std::size_t skipped = skip_empty_lines(bytes);
  bytes.remove_prefix(skipped);
  if (bytes.empty() || (!begun_ && bytes == "\r")) return skipped;
  begun_ = true;
  ErrorCode error;
  const std::size_t used =
      skipped + parser_->put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
  if (error == http::error::need_more) return used;
  if (error == http::error::header_limit) {
    fail(431, parser_->too_many_headers ? "the request has too many headers"
                                        : "the request's header is too large");
  } else if (error) {
    fail(400, fmt::format("this is not HTTP: {}", error.message()));
  } else if (parser_->is_header_done()) {
    end_header();
  }
  return used;
}

// Some clients send an empty line behind a body (RFC 9112, section 2.2).
std::size_t RequestParser::skip_empty_lines(std::string_view bytes) {
  constexpr std::string_view kEmptyLine = "\r\n";
  std::size_t skipped = 0;
  while (!begun_ && empty_lines_ < kMaxEmptyLines &&
         bytes.substr(skipped).starts_with(kEmptyLine)) {
    ++empty_lines_;
    skipped += kEmptyLine.size();
  }
  return skipped;
}

void RequestParser::end_header() {
  state_ = State::kHeaderDone;
  body_left_ = parser_->content_length().value_or(0);
  if (parser_->unsupported_version) return fail(505, "this server speaks HTTP/1.1");
  if (!parser_->target_ok) return fail(400, "the request's target is neither a path nor a URL");
  check_transfer_encoding();
  if (state_ != State::kError) check_host();
  if (state_ != State::kError) check_origin();
}

// Two readers that mistake a coding for another disagree about where the request ends.
void RequestParser::check_transfer_encoding() {
  const std::vector<const std::string*> codings = request().all_headers("Transfer-Encoding");
  if (codings.empty()) return;
  if (http_1_0()) return fail(400, "HTTP/1.0 has no Transfer-Encoding");
  if (codings.size() > 1 || !equal_ignoring_case(*codings.front(), "chunked") ||
      !parser_->chunked()) {
    fail(501, "of transfer encodings this server knows only chunked, by itself and once");
  }
}

// One name of the server, in the Host field or in the target, which goes before it.
void RequestParser::check_host() {
  const std::vector<const std::string*> hosts = request().all_headers("Host");
  if (hosts.size() > 1) return fail(400, "the request has more than one Host");
  if (hosts.empty() && !http_1_0()) return fail(400, "the request has no Host");
  if (!hosts.empty() && !hosts.front()->empty() && !valid_authority(*hosts.front())) {
    return fail(400, "the request's Host is not a name and a port");
  }
  if (!parser_->target_authority) return;
  if (!valid_authority(*parser_->target_authority)) {
    return fail(400, "the host in the request's target is not a name and a port");
  }
  std::erase_if(parser_->request.headers,
                [](const HttpHeader& header) { return equal_ignoring_case(header.name, "Host"); });
  if (parser_->request.headers.size() >= parser_->max_headers()) {
    return fail(431, "the request has too many headers");
  }
  parser_->request.headers.push_back({"Host", *std::move(parser_->target_authority)});
}

void RequestParser::check_origin() {
  const std::vector<const std::string*> origins = request().all_headers("Origin");
  if (origins.size() > 1) return fail(400, "the request has more than one Origin");
  if (!origins.empty() && !valid_origin(*origins.front())) {
    fail(400, "the request's Origin is not a scheme and a host");
  }
}

std::size_t RequestParser::feed_length(std::string_view bytes) {
  const auto used = static_cast<std::size_t>(std::min<std::uint64_t>(body_left_, bytes.size()));
  if (parser_->request.body.size() + used > max_body_bytes_) {
    fail(413, fmt::format("the request's body has more than {} bytes", max_body_bytes_));
    return used;
  }
  parser_->request.body.append(bytes.substr(0, used));
  body_left_ -= used;
  if (body_left_ == 0) state_ = State::kDone;
  return used;
}

std::size_t RequestParser::feed_chunks(std::string_view bytes) {
  const std::size_t used = chunks_.feed(bytes, parser_->request.body);
  if (chunks_.failed()) {
    fail(400, "this is not HTTP: bad chunk");
  } else if (parser_->request.body.size() > max_body_bytes_) {
    fail(413, fmt::format("the request's body has more than {} bytes", max_body_bytes_));
  } else if (chunks_.done()) {
    state_ = State::kDone;
  }
  return used;
}

void RequestParser::set_max_body_bytes(std::uint64_t max_body_bytes) {
  max_body_bytes_ = max_body_bytes;
  const auto announced = parser_->content_length();
  if (announced && *announced > max_body_bytes) {
    fail(413, fmt::format("the request's body has {} bytes; at most {} are taken", *announced,
                          max_body_bytes));
  }
}

bool RequestParser::keep_alive() const { return parser_->keep_alive(); }
bool RequestParser::http_1_0() const { return parser_->http_1_0; }
bool RequestParser::has_body() const {
  const auto announced = parser_->content_length();
  return parser_->chunked() || (announced && *announced > 0);
}
bool RequestParser::expects_continue() const {
  const std::string* expect = parser_->request.header("Expect");
  return expect != nullptr && *expect == "100-continue";
}
const HttpRequest& RequestParser::request() const { return parser_->request; }
void RequestParser::drop_body() { std::string().swap(parser_->request.body); }
HttpRequest RequestParser::take_request() { return std::move(parser_->request); }

void RequestParser::fail(int status, std::string message) {
  state_ = State::kError;
  error_status_ = status;
  error_message_ = std::move(message);
}

}  // namespace quire
