// One request and its answer, over a connection.
#pragma once

#include <string>
#include <string_view>

#include "apps/bench_serve/base_url.h"
#include "apps/bench_serve/connection.h"
#include "base/json.h"

namespace quire::bench {

// The head of a request; a GET where there is no body.
std::string request_head(const BaseUrl& url, std::string_view route, const std::string& api_key,
                         std::size_t body_bytes, std::string_view accept);

// "queue full" of {"error": {"message": "queue full"}}, and of the other forms in use, else the
// body's beginning; without line ends, of bounded length.
std::string message_of(std::string_view body);

// An answer that is no stream.
struct Answer {
  int status = 0;
  std::string body;
};

// Asks once, on a connection of its own, and settles `address` on the endpoint that answered.
// An empty body makes it a GET. kUnavailable where no whole answer comes within `seconds`.
Result<Answer> fetch(ServerAddress& address, std::string_view route, const std::string& api_key,
                     std::string_view body, double seconds);

}  // namespace quire::bench
