#include "serve/protocols/queue_fields.h"

#include <chrono>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace quire {
namespace {

using PriorityLimits = std::numeric_limits<std::int32_t>;
constexpr double kMostDeadlineMs = 86'400'000;  // a day

Result<std::optional<Duration>> read_deadline(const JsonReader& fields) {
  QUIRE_ASSIGN_OR_RETURN(const auto deadline, fields.find_double("deadline_ms"));
  if (!deadline) return std::optional<Duration>();
  if (*deadline < 0 || !(*deadline <= kMostDeadlineMs)) {
    return Status::invalid_argument(
        fmt::format("deadline_ms: {} is not a number from 0 to {}", *deadline, kMostDeadlineMs));
  }
  const std::chrono::duration<double, std::milli> time(*deadline);
  return std::optional<Duration>(std::chrono::duration_cast<Duration>(time));
}

}  // namespace

Result<std::int32_t> read_priority(const JsonReader& fields) {
  QUIRE_ASSIGN_OR_RETURN(const auto priority, fields.find_int("priority"));
  if (priority && (*priority < PriorityLimits::min() || *priority > PriorityLimits::max())) {
    return Status::invalid_argument(fmt::format("priority: {} is out of range; expected {} to {}",
                                                *priority, PriorityLimits::min(),
                                                PriorityLimits::max()));
  }
  return static_cast<std::int32_t>(priority.value_or(0));
}

Result<std::string> read_user(const JsonReader& fields) {
  QUIRE_ASSIGN_OR_RETURN(auto user, fields.find_string("user"));
  return std::move(user).value_or("");
}

Result<std::string> read_cache_salt(const JsonReader& fields) {
  QUIRE_ASSIGN_OR_RETURN(const auto salt, fields.find_string("cache_salt"));
  if (!salt || !salt->empty()) return salt.value_or("");
  return Status::invalid_argument("cache_salt: expected a text that is not empty",
                                  "leave it out to share cached prefixes with those who do, too");
}

Result<QueueFields> read_queue_fields(const JsonReader& fields) {
  QueueFields read;
  QUIRE_ASSIGN_OR_RETURN(read.priority, read_priority(fields));
  QUIRE_ASSIGN_OR_RETURN(read.user, read_user(fields));
  QUIRE_ASSIGN_OR_RETURN(read.deadline, read_deadline(fields));
  QUIRE_ASSIGN_OR_RETURN(read.cache_salt, read_cache_salt(fields));
  return read;
}

json::object queue_properties() {
  json::object properties;
  properties["priority"] = {{"type", "integer"},
                            {"minimum", PriorityLimits::min()},
                            {"maximum", PriorityLimits::max()},
                            {"default", 0},
                            {"description", "Lower goes first (--scheduling-policy priority)"}};
  properties["user"] = {{"type", "string"},
                        {"description", "Whose share it takes (--scheduling-policy fair)"}};
  properties["deadline_ms"] = {
      {"type", "number"},
      {"minimum", 0},
      {"maximum", kMostDeadlineMs},
      {"description", "Until its output begins (--scheduling-policy deadline)"}};
  properties["cache_salt"] = {
      {"type", "string"},
      {"minLength", 1},
      {"description", "It finds in the prefix cache what those with the same one have left"}};
  return properties;
}

}  // namespace quire
