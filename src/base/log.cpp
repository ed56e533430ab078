#include "base/log.h"

#include <chrono>
#include <memory>
#include <string>

#include <fmt/chrono.h>
#include <spdlog/formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/sinks/stdout_sinks.h>

namespace quire {
namespace {

// A message that is an object already (log_event) is a part of the line, another one its "message".
class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const auto millis = std::chrono::time_point_cast<std::chrono::milliseconds>(message.time);
    const std::string_view text(message.payload.data(), message.payload.size());
    const auto level = spdlog::level::to_string_view(message.level);
    fmt::format_to(std::back_inserter(out), R"({{"time":"{:%FT%T}Z","level":"{}",)",
                   fmt::gmtime(std::chrono::floor<std::chrono::seconds>(millis)),
                   std::string_view(level.data(), level.size()));
    if (text.starts_with('{')) {
      out.append(text.data() + 1, text.data() + text.size());
    } else {
      fmt::format_to(std::back_inserter(out), R"("message":{}}})", json::serialize(text));
    }
    out.push_back('\n');
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }
};

bool writes_json() { return spdlog::default_logger()->name() == "json"; }

}  // namespace

void init_logging(bool verbose, LogFormat format) {
  std::shared_ptr<spdlog::logger> logger;
  if (format == LogFormat::kJson) {
    logger =
        std::make_shared<spdlog::logger>("json", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    logger->set_formatter(std::make_unique<JsonFormatter>());
  } else {
    logger = std::make_shared<spdlog::logger>(
        "quire", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    logger->set_pattern("%^%l%$: %v");
  }
  logger->set_level(verbose ? spdlog::level::debug : spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

void log_event(std::string_view event, const json::object& fields) {
  if (writes_json()) {
    json::object line = {{"event", event}};
    for (const auto& field : fields) line[field.key()] = field.value();
    spdlog::default_logger_raw()->log(spdlog::level::info, json::serialize(line));
    return;
  }
  std::string line(event);
  for (const auto& field : fields) {
    line += ' ';
    line += field.key();
    line += '=';
    if (field.value().is_string()) {
      line += field.value().get_string();
    } else if (field.value().is_double()) {
      line += fmt::format("{}", field.value().get_double());
    } else {
      line += json::serialize(field.value());
    }
  }
  spdlog::default_logger_raw()->log(spdlog::level::info, line);
}

}  // namespace quire
