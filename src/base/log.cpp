#include "base/log.h"

#include <memory>

#include <spdlog/sinks/stdout_color_sinks.h>

namespace quire {

void init_logging(bool verbose) {
  auto logger = std::make_shared<spdlog::logger>(
      "quire", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern("%^%l%$: %v");
  logger->set_level(verbose ? spdlog::level::debug : spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace quire
