#include "apps/top/live_feed.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "apps/chat/sse_parser.h"
#include "base/thread.h"

namespace quire {

std::string live_path(double hz) { return fmt::format("/engine/live?hz={}", hz); }

Status live_error(const Status& status, std::string_view base_url) {
  if (status.code() != StatusCode::kNotFound) return status;
  return Status::not_found(fmt::format("{} has no /engine/live", base_url),
                           "is it a Quire server, and not an older one?");
}

LiveFeed::LiveFeed(HttpClient client, double hz, std::function<void()> notify)
    : client_(std::move(client)),
      path_(live_path(hz)),
      notify_(std::move(notify)),
      thread_(new_thread("quire-feed", [this] { run(stop_.get_token()); })) {}

LiveFeed::~LiveFeed() {
  stop_.request_stop();
  thread_.join();
}

LiveFeed::News LiveFeed::take() {
  const std::lock_guard lock(mutex_);
  News news = {.event = std::exchange(news_.event, std::nullopt), .connection = news_.connection};
  return news;
}

void LiveFeed::tell(std::optional<std::string> event, Status connection) {
  {
    const std::lock_guard lock(mutex_);
    news_.event = std::move(event);
    news_.connection = std::move(connection);
  }
  notify_();
}

void LiveFeed::run(const std::stop_token& stop) {
  constexpr std::chrono::seconds kPause(1);
  while (!stop.stop_requested()) {
    SseParser parser([this](const SseEvent& event) -> Status {
      tell(event.data, {});
      return {};
    });
    const auto on_body = [&parser](std::string_view piece) { return parser.feed(piece); };
    Status ended = client_.request(path_, std::nullopt, on_body, stop);
    if (stop.stop_requested()) return;
    if (ended.ok()) ended = Status::unavailable("the server has closed the connection");
    tell(std::nullopt, live_error(ended, client_.base_url()));
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any().wait_for(lock, stop, kPause, [] { return false; });
  }
}

}  // namespace quire
