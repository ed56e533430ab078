#include "serve/http/http_error.h"

#include "base/json.h"

namespace quire {

HttpResponse http_error(int status, std::string_view message, std::string_view code) {
  const std::string_view type = status == 401   ? "authentication_error"
                                : status == 403 ? "permission_error"
                                : status == 404 ? "not_found_error"
                                : status >= 500 ? "server_error"
                                                : "invalid_request_error";
  const json::value code_value = code.empty() ? json::value() : json::value(code);
  const json::value body = {
      {"error", {{"message", message}, {"type", type}, {"param", nullptr}, {"code", code_value}}}};
  return {.status = status,
          .content_type = "application/json",
          .headers = {},
          .body = json::serialize(body)};
}

}  // namespace quire
