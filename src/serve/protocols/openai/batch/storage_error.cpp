#include "serve/protocols/openai/batch/storage_error.h"

#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace quire {

ApiError storage_error(const Status& status, std::string_view field) {
  ApiError error = to_api_error(status);
  if (!field.empty() && (error.status == 400 || error.status == 404)) {
    error.param = std::string(field);
  }
  if (status.code() == StatusCode::kUnavailable) {
    error.status = 409;
    error.type = "invalid_request_error";
    error.code = "conflict";
  } else if (status.code() == StatusCode::kResourceExhausted) {
    error.status = 507;
    error.type = "server_error";
    error.code = "storage_full";
  } else if (status.code() == StatusCode::kNotFound) {
    error.type = "invalid_request_error";  // as OpenAI's
  } else if (error.status == 500) {
    log_warning("files and batches: {}", status.to_string());
  }
  return error;
}

ApiError bad_field(std::string_view field, std::string message) {
  ApiError error;
  error.message = std::move(message);
  error.param = std::string(field);
  return error;
}

Result<std::int64_t> read_limit(const HttpRequest& request, std::int64_t most,
                                std::int64_t default_value) {
  const std::string* text = request.query_param("limit");
  if (text == nullptr) return default_value;
  std::int64_t value = 0;
  const char* const end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc() || stop != end || value < 1 || value > most) {
    return Status::invalid_argument(
        fmt::format("limit: expected a number from 1 to {}, found \"{}\"", most,
                    std::string_view(*text).substr(0, 32)));
  }
  return value;
}

}  // namespace quire
