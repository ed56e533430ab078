#include "serve/http/http_error.h"

#include "base/json.h"

namespace quire {

HttpResponse http_error(int status, std::string_view message, std::string_view code,
                        std::string_view param) {
  const std::string_view type = status == 401   ? "authentication_error"
                                : status == 403 ? "permission_error"
                                : status == 404 ? "not_found_error"
                                : status == 429 ? "rate_limit_error"
                                : status >= 500 ? "server_error"
                                                : "invalid_request_error";
  const auto or_null = [](std::string_view text) {
    return text.empty() ? json::value() : json::value(text);
  };
  const json::value body = {
      {"error",
       {{"message", message}, {"type", type}, {"param", or_null(param)}, {"code", or_null(code)}}}};
  return {.status = status,
          .content_type = "application/json",
          .headers = {},
          .body = json::serialize(body)};
}

HttpResponse busy(std::string_view message) {
  HttpResponse response = http_error(503, message);
  response.headers.push_back({"Retry-After", "1"});
  return response;
}

}  // namespace quire
