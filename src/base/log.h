// Log lines on stderr, one a call: log_info("loaded {} tensors", n). For people by default, or one
// JSON object a line for programs. The contents of a line are escaped and cut as printable() does
// it: a name out of a request or a file can neither move the cursor nor begin a line of its own.
#pragma once

#include <string_view>

#include <spdlog/spdlog.h>

#include "base/json.h"

namespace quire {

enum class LogFormat { kText, kJson };

// Sends spdlog's default logger to stderr. Called by main(), before other threads start.
void init_logging(bool verbose, LogFormat format = LogFormat::kText);

template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  spdlog::info(format, std::forward<Args>(args)...);
}
template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  spdlog::warn(format, std::forward<Args>(args)...);
}

// Something that happened, with its particulars: "info: request id=7 prompt_tokens=12", or as JSON
// {"time", "level", "event": "request", "id": 7, ...}.
void log_event(std::string_view event, const json::object& fields);

}  // namespace quire
