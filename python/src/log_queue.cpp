#include "log_queue.h"

#include <utility>

#include <fmt/format.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include "base/printable.h"

namespace quire::python {
namespace {

constexpr std::size_t kMaxMessageBytes = 8000;

int python_level(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::trace:
    case spdlog::level::debug:
      return 10;
    case spdlog::level::warn:
      return 30;
    case spdlog::level::err:
      return 40;
    case spdlog::level::critical:
      return 50;
    default:
      return 20;
  }
}

class QueueSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit QueueSink(std::shared_ptr<LogQueue> queue) : queue_(std::move(queue)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string_view text(message.payload.data(), message.payload.size());
    queue_->put({python_level(message.level), printable(text, kMaxMessageBytes)});
  }
  void flush_() override {}

  std::shared_ptr<LogQueue> queue_;
};

}  // namespace

void LogQueue::put(LogRecord record) {
  const std::lock_guard lock(mutex_);
  if (records_.size() == kMaxRecords) {
    records_.pop_front();
    ++num_dropped_;
  }
  records_.push_back(std::move(record));
  changed_.notify_one();
}

std::vector<LogRecord> LogQueue::take(Duration timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [this] { return closed_ || !records_.empty(); });
  std::vector<LogRecord> taken;
  if (num_dropped_ > 0) {
    taken.push_back({30, fmt::format("{} log records were dropped", num_dropped_)});
    num_dropped_ = 0;
  }
  for (LogRecord& record : records_) taken.push_back(std::move(record));
  records_.clear();
  return taken;
}

void LogQueue::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

void log_to(std::shared_ptr<LogQueue> queue) {
  auto logger =
      std::make_shared<spdlog::logger>("quire", std::make_shared<QueueSink>(std::move(queue)));
  logger->set_level(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace quire::python
