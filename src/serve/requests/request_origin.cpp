#include "serve/requests/request_origin.h"

#include <utility>

namespace quire {

RequestOrigin origin_of(const Exchange& exchange, std::string external_id, std::string model,
                        bool stream) {
  return {.external_id = std::move(external_id),
          .caller = exchange.request().caller,
          .model = std::move(model),
          .stream = stream,
          .received = exchange.request().received,
          .observer = exchange.observer()};
}

Instant received_at(const std::optional<std::chrono::steady_clock::time_point>& received,
                    const Engine& engine) {
  if (!received) return engine.now();
  const auto age = std::chrono::steady_clock::now() - *received;  // before now() below
  return engine.now() - std::chrono::duration_cast<Duration>(age);
}

std::string_view finish_name(const RequestOutput& output) {
  return output.finish_reason ? finish_reason_name(*output.finish_reason) : "error";
}

}  // namespace quire
