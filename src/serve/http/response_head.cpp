#include "serve/http/response_head.h"

#include <ctime>

#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/serializer.hpp>
#include <fmt/chrono.h>

namespace quire {

namespace http = boost::beast::http;

namespace {

std::string clean(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F) out.push_back(c);
  }
  return out;
}

}  // namespace

std::string response_head(const HttpResponse& response, const ResponseFraming& framing,
                          std::span<const HttpHeader> more_headers) {
  http::response<http::empty_body> head(static_cast<http::status>(response.status),
                                        framing.http_1_0 ? 10 : 11);
  head.set(http::field::date,
           fmt::format("{:%a, %d %b %Y %H:%M:%S} GMT", fmt::gmtime(std::time(nullptr))));
  head.set(http::field::server, "quire");
  if (!response.content_type.empty()) head.set(http::field::content_type, response.content_type);
  for (const HttpHeader& header : response.headers) head.insert(header.name, clean(header.value));
  for (const HttpHeader& header : more_headers) head.insert(header.name, clean(header.value));
  if (framing.chunked) {
    head.chunked(true);
  } else if (framing.content_length) {
    head.content_length(*framing.content_length);
  }
  head.keep_alive(framing.keep_alive);

  http::serializer<false, http::empty_body> serializer(head);
  serializer.split(true);
  std::string text;
  boost::beast::error_code error;
  serializer.next(error, [&](boost::beast::error_code& /*error*/, const auto& buffers) {
    text = boost::beast::buffers_to_string(buffers);
  });
  return text;
}

void append_content(std::string& out, std::string_view piece, bool finished, bool chunked) {
  if (!chunked) {
    out += piece;
    return;
  }
  if (!piece.empty()) {
    fmt::format_to(std::back_inserter(out), "{:x}\r\n", piece.size());
    out += piece;
    out += "\r\n";
  }
  if (finished) out += "0\r\n\r\n";
}

}  // namespace quire
