#include "serve/http/body_pace.h"

namespace quire {

BodyDeadline body_deadline(const HttpServerConfig& config,
                           std::chrono::steady_clock::time_point begin,
                           std::chrono::steady_clock::time_point now,
                           std::uint64_t received_bytes) {
  BodyDeadline deadline = {.at = now + config.body_timeout,
                           .reason = "no more of the request's body came"};
  // What has come earns its time at the lowest rate.
  const std::chrono::milliseconds earned(received_bytes * 1000 / config.min_body_rate);
  if (const auto slow = begin + config.body_timeout + earned; slow < deadline.at) {
    deadline = {.at = slow, .reason = "the request's body came too slowly"};
  }
  if (const auto last = begin + config.body_deadline; last < deadline.at) {
    deadline = {.at = last, .reason = "the request's body took too long to come"};
  }
  return deadline;
}

}  // namespace quire
