// The status line and headers of an answer, as bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

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

}  // namespace quire
