// An answer as bytes: its status line and headers, its content.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "serve/http/message.h"

namespace quire {

struct ResponseFraming {
  bool http_1_0 = false;
  bool keep_alive = true;
  bool chunked = false;
  std::optional<std::uint64_t> content_length;  // where it is known and the status has a body
};

// Control characters in header values, which could end a header early, are left out.
std::string response_head(const HttpResponse& response, const ResponseFraming& framing,
                          std::span<const HttpHeader> more_headers);

// Appends a piece of the content, as a chunk where it comes in chunks; with the last chunk too,
// where it is `finished`.
void append_content(std::string& out, std::string_view piece, bool finished, bool chunked);

}  // namespace quire
