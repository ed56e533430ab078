#include "serve/protocols/openai/api_error.h"

#include <utility>

namespace quire {
namespace {

json::value or_null(const std::optional<std::string>& text) {
  return text ? json::value(*text) : json::value();
}

}  // namespace

ApiError to_api_error(const Status& status, std::optional<std::string> param) {
  ApiError error;
  error.message = status.to_string();
  error.param = std::move(param);
  switch (status.code()) {
    case StatusCode::kUnimplemented:
      error.code = "unsupported_parameter";
      return error;
    case StatusCode::kInvalidArgument:
      return error;
    case StatusCode::kConfig:  // the model lacks something, such as a chat template
      return error;
    case StatusCode::kNotFound:
      error.status = 404;
      error.type = "not_found_error";
      return error;
    case StatusCode::kResourceExhausted:
      error.status = 429;
      error.type = "rate_limit_error";
      error.code = "rate_limit_exceeded";
      return error;
    case StatusCode::kUnavailable:
    case StatusCode::kCancelled:
      error.status = 503;
      error.type = "server_error";
      error.code = "unavailable";
      return error;
    default:
      error.status = 500;
      error.type = "server_error";
      error.message = "internal error";
      return error;
  }
}

json::object error_body(const ApiError& error) {
  return {{"error",
           {{"message", error.message},
            {"type", error.type},
            {"param", or_null(error.param)},
            {"code", or_null(error.code)}}}};
}

HttpResponse error_response(const ApiError& error) {
  return {.status = error.status,
          .content_type = "application/json",
          .headers = error.headers,
          .body = json::serialize(error_body(error))};
}

}  // namespace quire
