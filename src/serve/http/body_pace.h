// How slowly a request's body may come: without a byte for a time, on average, and in all.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "serve/http/server.h"

namespace quire {

struct BodyDeadline {
  std::chrono::steady_clock::time_point at;
  std::string_view reason;  // what is wrong with the body if no more has come by then
};

// Until when more of a body has to come that began at `begin` and of which, `now`, so many bytes
// have come.
BodyDeadline body_deadline(const HttpServerConfig& config,
                           std::chrono::steady_clock::time_point begin,
                           std::chrono::steady_clock::time_point now, std::uint64_t received_bytes);

}  // namespace quire
