#include "base/log.h"

#include <chrono>
#include <memory>
#include <string>

#include <fmt/chrono.h>
#include <spdlog/formatter.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/sinks/stdout_sinks.h>

#include "base/printable.h"

namespace quire {
namespace {

// The length of a line at most: a plan is one line of a few hundred bytes, a request's of a few
// more.
constexpr std::size_t kMaxLineBytes = 8000;
constexpr std::size_t kMaxFieldBytes = 1000;

// The message in what people read: text from outside can neither move the cursor nor begin a line.
class PrintableMessage final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const std::string_view text(message.payload.data(), message.payload.size());
    const std::string shown = printable(text, kMaxLineBytes);
    out.append(shown.data(), shown.data() + shown.size());
  }
  std::unique_ptr<spdlog::custom_flag_formatter> clone() const override {
    return std::make_unique<PrintableMessage>();
  }
};

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
      fmt::format_to(std::back_inserter(out), R"("message":{}}})",
                     json::serialize(printable(text, kMaxLineBytes)));
    }
    out.push_back('\n');
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }
};

std::string bounded(std::string_view field) { return printable(field, kMaxFieldBytes); }

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
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<PrintableMessage>('*').set_pattern("%^%l%$: %*");
    logger->set_formatter(std::move(formatter));
  }
  logger->set_level(verbose ? spdlog::level::debug : spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

void log_event(std::string_view event, const json::object& fields) {
  if (writes_json()) {
    json::object line = {{"event", event}};
    for (const auto& field : fields) {
      const json::string* text = field.value().if_string();
      line[field.key()] = text == nullptr ? field.value() : json::value(bounded(*text));
    }
    spdlog::default_logger_raw()->log(spdlog::level::info, json::serialize(line));
    return;
  }
  std::string line(event);
  for (const auto& field : fields) {
    line += ' ';
    line += field.key();
    line += '=';
    if (field.value().is_string()) {
      line += bounded(field.value().get_string());
    } else if (field.value().is_double()) {
      line += fmt::format("{}", field.value().get_double());
    } else {
      line += json::serialize(field.value());
    }
  }
  spdlog::default_logger_raw()->log(spdlog::level::info, line);
}

}  // namespace quire
