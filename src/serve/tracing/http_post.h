// Posts bodies to one URL, one at a time, over a connection that stays open. All of libcurl that
// the server uses is behind this header.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "serve/http/message.h"

namespace quire {

struct PostResult {
  int status = 0;  // 0: no answer came
  std::optional<std::chrono::seconds> retry_after;
  std::string body;   // the first 64 KiB of it
  std::string error;  // why no answer came
};

class HttpPost {
 public:
  virtual ~HttpPost() = default;

  // Blocks until the answer has come or its time is up. `give_up` is asked many times a second:
  // true ends it at once.
  virtual PostResult post(const std::string& body, const std::function<bool()>& give_up) = 0;
};

// `headers` go with every request. Redirects are not followed; a proxy is used where the
// environment names one. kInternal where libcurl cannot start.
Result<std::unique_ptr<HttpPost>> make_http_post(const std::string& url,
                                                 const std::vector<HttpHeader>& headers,
                                                 std::chrono::milliseconds timeout);

}  // namespace quire
