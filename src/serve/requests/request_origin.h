// What is said of a request in more than one place: who asks, since when, how it ended.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "engine/api.h"
#include "serve/http/exchange.h"
#include "serve/requests/request_observer.h"

namespace quire {

// The origin of what this exchange asks for.
RequestOrigin origin_of(const Exchange& exchange, std::string external_id, std::string model,
                        bool stream);

// When a request was received, on the engine's clock: now, where it did not come over a connection.
// Never before it was.
Instant received_at(const std::optional<std::chrono::steady_clock::time_point>& received,
                    const Engine& engine);

// How an output ended: "stop", "length", "abort" or "error". Of its last piece.
std::string_view finish_name(const RequestOutput& output);

}  // namespace quire
