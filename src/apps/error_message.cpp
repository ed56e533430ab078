#include "apps/error_message.h"

namespace quire {

std::optional<std::string> error_message(const json::value& body) {
  if (body.is_string()) return std::string(body.get_string());
  if (!body.is_object()) return std::nullopt;
  for (const char* key : {"error", "message", "detail"}) {
    const json::value* value = body.get_object().if_contains(key);
    if (value == nullptr) continue;
    if (auto message = error_message(*value)) return message;
  }
  return std::nullopt;
}

}  // namespace quire
