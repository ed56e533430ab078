// Log lines for people, on stderr, one a call: log_info("loaded {} tensors", n).
#pragma once

#include <spdlog/spdlog.h>

namespace quire {

// Sends spdlog's default logger to stderr with a short pattern. Called once, by main().
void init_logging(bool verbose);

template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  spdlog::info(format, std::forward<Args>(args)...);
}
template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  spdlog::warn(format, std::forward<Args>(args)...);
}

}  // namespace quire
