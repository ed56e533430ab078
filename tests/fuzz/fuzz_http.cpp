// Any bytes as what a connection receives, one request after the other, as a session takes them:
// whole requests within the limits, or an error that may be answered; the same requests whether the
// bytes come at once or in pieces. The first byte is the size of the pieces.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http/access.h"
#include "serve/http/gate.h"
#include "serve/http/request_parser.h"
#include "serve/http/router.h"

namespace {

using quire::HttpRequest;
using quire::RequestParser;
using State = RequestParser::State;

constexpr quire::RequestLimits kLimits = {
    .max_header_bytes = 512, .max_headers = 8, .max_body_bytes = 1024};
constexpr std::uint64_t kRouteBodyBytes = 128;

void check(bool holds) {
  if (!holds) std::abort();
}

void check_path(std::string_view path) {
  check(path.starts_with('/'));
  check(std::ranges::none_of(path, [](char c) { return static_cast<unsigned char>(c) < 0x20; }));
  for (std::size_t at = 0; at != std::string_view::npos;) {
    const std::size_t next = path.find('/', at + 1);
    const std::string_view segment = path.substr(at + 1, next - at - 1);
    check(segment != "." && segment != "..");
    at = next;
  }
}

void check_request(const HttpRequest& request) {
  check(!request.method.empty());
  check_path(request.path);
  check(request.headers.size() <= kLimits.max_headers);
  std::size_t header_bytes = 0;
  for (const quire::HttpHeader& header : request.headers) {
    check(!header.name.empty());
    check(header.value.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos);
    header_bytes += header.name.size() + header.value.size();
  }
  check(header_bytes <= kLimits.max_header_bytes);
}

const quire::Router& router() {
  static const quire::Router all = [] {
    quire::Router made;
    const char* patterns[] = {"/v1/completions", "/v1/batches/{id}/cancel", "/{a}/{b}"};
    for (const char* pattern : patterns) {
      made.add({.method = "POST", .pattern = pattern, .handler = [](auto) {}});
    }
    made.add({.method = "GET", .pattern = "/health", .handler = [](auto) {}});
    return made;
  }();
  return all;
}

void check_admission(const HttpRequest& request, bool has_body) {
  static const quire::AccessPolicy kAccess(true, {"example.org"}, {"http://example.org"}, {"key"});
  const quire::Admission admission = quire::admit(request, has_body, router(), kAccess);
  check((admission.route != nullptr) != admission.refusal.has_value());
  if (admission.route == nullptr) {
    check(admission.refusal->status >= 200 && admission.refusal->status < 600);
  }
  for (const auto& [name, value] : admission.path_params) check(!value.empty());
  if (const std::string* id = request.header("X-Request-Id")) (void)quire::valid_request_id(*id);
}

// What a connection made of its bytes.
struct Seen {
  std::vector<HttpRequest> requests;
  int error_status = 0;
  State last = State::kHeader;
};

Seen receive(std::string_view bytes, std::size_t piece_size) {
  Seen seen;
  std::string in;
  std::optional<RequestParser> parser;
  parser.emplace(kLimits);
  while (seen.error_status == 0) {
    const std::size_t used = parser->feed(in);
    check(used <= in.size());
    in.erase(0, used);
    seen.last = parser->state();
    switch (parser->state()) {
      case State::kHeaderDone:
        check_request(parser->request());
        check_admission(parser->request(), parser->has_body());
        (void)parser->keep_alive();
        (void)parser->http_1_0();
        (void)parser->expects_continue();
        parser->set_max_body_bytes(kRouteBodyBytes);
        if (parser->state() != State::kError) continue;
        [[fallthrough]];
      case State::kError:
        seen.error_status = parser->error_status();
        check(seen.error_status >= 400 && seen.error_status < 600);
        check(!parser->error_message().empty());
        continue;
      case State::kDone:
        check(parser->request().body.size() <= kRouteBodyBytes);
        seen.requests.push_back(parser->take_request());
        parser.emplace(kLimits);
        if (in.empty() && bytes.empty()) return seen;
        continue;
      case State::kHeader:
      case State::kBody:
        break;
    }
    if (bytes.empty()) return seen;  // it waits for more
    const std::size_t count = std::min(piece_size, bytes.size());
    in += bytes.substr(0, count);
    bytes.remove_prefix(count);
  }
  return seen;
}

bool same(const HttpRequest& a, const HttpRequest& b) {
  return a.method == b.method && a.path == b.path && a.query == b.query && a.body == b.body &&
         std::ranges::equal(a.headers, b.headers, [](const auto& x, const auto& y) {
           return x.name == y.name && x.value == y.value;
         });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Seen whole = receive(bytes, bytes.size() + 1);
  const Seen pieces = receive(bytes, 1 + data[0] % 64);
  const std::size_t common = std::min(whole.requests.size(), pieces.requests.size());
  check(std::equal(whole.requests.begin(),
                   whole.requests.begin() + static_cast<std::ptrdiff_t>(common),
                   pieces.requests.begin(), same));
  // Beast counts a header from its start, or, if it comes at once, from behind its first line.
  if (whole.error_status == 431 || pieces.error_status == 431) return 0;
  check(whole.requests.size() == pieces.requests.size());
  // A broken header that comes in pieces is looked at when it seems complete or grows too long, so
  // the error may come later, be another, or be the timeout's.
  if (whole.error_status != 0) {
    check(pieces.error_status != 0 || pieces.last == State::kHeader);
  } else {
    check(pieces.error_status == 0 && pieces.last == whole.last);
  }
  return 0;
}
