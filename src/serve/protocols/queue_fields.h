// The fields of a request that say how it stands among others: who goes first, whose share it
// uses, whose cached prefixes it finds. The same in every protocol and in lines of input.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/json.h"
#include "base/status.h"

namespace quire {

inline constexpr std::array<std::string_view, 4> kQueueFields = {"priority", "user", "deadline_ms",
                                                                 "cache_salt"};

struct QueueFields {
  std::int32_t priority = 0;
  std::string user;                  // any text
  std::optional<Duration> deadline;  // 0 to a day
  std::string cache_salt;            // as vLLM has it, any text but an empty one; empty: none
};

// Errors (kInvalidArgument) start with the name of the field.
Result<QueueFields> read_queue_fields(const JsonReader& fields);
// One of them each.
Result<std::int32_t> read_priority(const JsonReader& fields);
Result<std::string> read_user(const JsonReader& fields);
Result<std::string> read_cache_salt(const JsonReader& fields);

// What they may be, as properties of a JSON Schema.
json::object queue_properties();

}  // namespace quire
