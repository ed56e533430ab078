#include "serve/protocols/openai/response_background.h"

#include <algorithm>
#include <utility>

namespace quire {
namespace {

constexpr std::string_view kEventEnd = "\n\n";

}  // namespace

bool BackgroundResponses::add(std::string id, std::shared_ptr<BackgroundResponse> response) {
  const std::lock_guard lock(mutex_);
  if (live_.size() >= kMaxLive) return false;
  live_.emplace(std::move(id), std::move(response));
  return true;
}

std::shared_ptr<BackgroundResponse> BackgroundResponses::find(std::string_view id) const {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(id);
  return found == live_.end() ? nullptr : found->second;
}

void BackgroundResponses::remove(std::string_view id) {
  std::shared_ptr<BackgroundResponse> last;  // ends after the lock
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(id);
  if (found == live_.end()) return;
  last = std::move(found->second);
  live_.erase(found);
}

std::string_view events_after(std::string_view events, std::optional<std::int64_t> after) {
  for (std::int64_t number = 0; after && number <= *after && !events.empty(); ++number) {
    events.remove_prefix(std::min(events.size(), events.find(kEventEnd) + kEventEnd.size()));
  }
  return events;
}

BackgroundResponse::BackgroundResponse(std::string id, json::object response,
                                       std::shared_ptr<Exchange> caller, bool caller_follows,
                                       std::shared_ptr<BackgroundResponses> live,
                                       std::shared_ptr<ResponseStore> store)
    : id_(std::move(id)),
      response_(std::move(response)),
      observer_(caller->observer()),
      live_(std::move(live)),
      store_(std::move(store)),
      caller_follows_(caller_follows),
      caller_(std::move(caller)) {
  const HttpRequest& request = caller_->request();
  request_.method = request.method;
  request_.path = request.path;
  request_.headers = request.headers;
  request_.request_id = request.request_id;
  request_.received = request.received;
}

std::string BackgroundResponse::text_of(std::string_view status) const {
  json::object object = response_;
  object["status"] = status;
  object["output"] = json::array();
  return json::serialize(object);
}

std::string BackgroundResponse::snapshot() {
  const std::lock_guard lock(mutex_);
  if (ended_ && !stored_.response.empty()) return stored_.response;
  return text_of(begun_ ? "in_progress" : "queued");
}

void BackgroundResponse::keep(StoredResponse stored) {
  const std::lock_guard lock(mutex_);
  stored_ = std::move(stored);
}

std::shared_ptr<const StoredResponse> BackgroundResponse::kept() {
  const std::lock_guard lock(mutex_);
  return std::make_shared<const StoredResponse>(stored_);
}

void BackgroundResponse::cancel(bool forget) {
  std::function<void()> gone;
  {
    const std::lock_guard lock(mutex_);
    gone = std::exchange(gone_, nullptr);
  }
  if (gone) gone();  // when it returns, nothing more is written
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  stored_.response = text_of("cancelled");
  if (forget) stored_ = {};
  end();
}

bool BackgroundResponse::follow(const std::shared_ptr<Exchange>& follower,
                                std::optional<std::int64_t> after, std::uint64_t max_bytes) {
  const std::lock_guard lock(mutex_);
  const std::string_view events = events_after(events_, after);
  if (!events_kept_ || events.size() > max_bytes) return false;
  follower->start_stream({.content_type = "text/event-stream; charset=utf-8",
                          .headers = {{"Cache-Control", "no-cache"}},
                          .body = ""});
  if (!events.empty()) follower->write(events);
  if (ended_) {
    follower->finish();
  } else {
    followers_.push_back(follower);
  }
  return true;
}

void BackgroundResponse::respond(HttpResponse response) {
  std::shared_ptr<Exchange> caller;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    gone_ = nullptr;
    caller = std::exchange(caller_, nullptr);
  }
  live_->remove(id_);
  if (caller) caller->respond(std::move(response));
}

void BackgroundResponse::start_stream(HttpResponse head) {
  const std::lock_guard lock(mutex_);
  const auto caller = std::exchange(caller_, nullptr);
  if (caller_follows_) {
    caller->start_stream(std::move(head));
    followers_.push_back(caller);
  } else {
    head.content_type = HttpResponse().content_type;
    head.body = text_of("queued");
    caller->respond(std::move(head));
  }
}

void BackgroundResponse::write(std::string_view events) {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  begun_ = begun_ || !events_.empty() || !events_kept_;
  std::erase_if(followers_, [](const auto& follower) { return follower->gone(); });
  for (const auto& follower : followers_) follower->write(events);
  if (events_kept_ && events_.size() + events.size() > kMaxEventBytes) {
    events_kept_ = false;
    events_ = {};
  }
  if (events_kept_) events_ += events;
}

void BackgroundResponse::finish() {
  const std::lock_guard lock(mutex_);
  if (!ended_) end();
}

void BackgroundResponse::end() {
  ended_ = true;
  gone_ = nullptr;
  if (!stored_.response.empty()) {
    // Copies: whoever found this response just before its end asks it, not the store.
    stored_.events = events_;
    stored_.events_kept = events_kept_;
    store_->put(id_, stored_);
  }
  live_->remove(id_);
  for (const auto& follower : followers_) follower->finish();
  followers_.clear();
}

void BackgroundResponse::on_disconnect(std::function<void()> gone) {
  const std::lock_guard lock(mutex_);
  if (!ended_) gone_ = std::move(gone);
}

}  // namespace quire
