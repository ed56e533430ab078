#include "serve/http/pending_answer.h"

#include <new>
#include <utility>

#include "base/exhaustion.h"

namespace quire {

void Outbox::push(std::shared_ptr<PendingAnswer> answer) {
  const std::lock_guard lock(mutex_);
  if (!wake_) return;
  try {
    ready_.push_back(std::move(answer));
    if (ready_.size() == 1) wake_();
  } catch (const std::bad_alloc&) {
    // The I/O thread looks at all connections again within a second.
  }
}

std::vector<std::shared_ptr<PendingAnswer>> Outbox::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(ready_, {});
}

void Outbox::close() {
  const std::lock_guard lock(mutex_);
  wake_ = nullptr;
  ready_.clear();
}

PendingAnswer::PendingAnswer(HttpRequest request, std::shared_ptr<Outbox> outbox,
                             std::uint64_t max_unsent_bytes)
    : request_(std::move(request)),
      outbox_(std::move(outbox)),
      max_unsent_bytes_(max_unsent_bytes) {}

void PendingAnswer::respond(HttpResponse response) {
  std::unique_lock lock(mutex_);
  if (answered_ || disconnected_) return;
  answered_ = finished_ = true;
  body_ = std::exchange(response.body, {});
  head_ = std::move(response);
  notify(lock);
}

void PendingAnswer::fail(HttpResponse response) {
  std::unique_lock lock(mutex_);
  if (!answered_) {
    lock.unlock();
    return respond(std::move(response));
  }
  if (finished_ || disconnected_) return;
  finished_ = cut_off_ = true;
  notify(lock);
}

void PendingAnswer::start_stream(HttpResponse head) {
  std::unique_lock lock(mutex_);
  if (answered_ || disconnected_) return;
  answered_ = streaming_ = true;
  event_stream_ = head.content_type.starts_with("text/event-stream");
  body_ = std::exchange(head.body, {});
  head_ = std::move(head);
  notify(lock);
}

void PendingAnswer::write(std::string_view piece) {
  std::unique_lock lock(mutex_);
  if (!streaming_ || finished_ || disconnected_ || overflow_) return;
  if (body_.size() + piece.size() > max_unsent_bytes_) {
    overflow_ = true;
    body_ = {};
    notified_ = false;  // told at once, though the connection is still busy with what came before
  } else {
    body_ += piece;
  }
  notify(lock);
}

void PendingAnswer::finish() {
  std::unique_lock lock(mutex_);
  if (!streaming_ || finished_ || disconnected_) return;
  finished_ = true;
  notify(lock);
}

std::size_t PendingAnswer::unsent_bytes() const {
  const std::lock_guard lock(mutex_);
  return body_.size();
}

// What a handler owns ends with its answer: it may own this object.
void PendingAnswer::notify(std::unique_lock<std::mutex>& lock) {
  const bool first = !std::exchange(notified_, true);
  std::function<void()> done = finished_ ? std::exchange(gone_, nullptr) : nullptr;
  lock.unlock();
  if (first) outbox_->push(shared_from_this());
}

void PendingAnswer::on_disconnect(std::function<void()> gone) {
  {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    if (!disconnected_) {
      gone_ = std::move(gone);
      return;
    }
  }
  gone();
}

bool PendingAnswer::gone() const {
  const std::lock_guard lock(mutex_);
  return disconnected_;
}

PendingAnswer::Unsent PendingAnswer::take_unsent() {
  const std::lock_guard lock(mutex_);
  notified_ = false;
  return {.head = std::exchange(head_, std::nullopt),
          .streaming = streaming_,
          .body = std::exchange(body_, {}),
          .finished = finished_,
          .overflow = overflow_,
          .cut_off = cut_off_};
}

bool PendingAnswer::overflowed() {
  const std::lock_guard lock(mutex_);
  return overflow_;
}

bool PendingAnswer::keep_alive() {
  std::unique_lock lock(mutex_);
  if (!event_stream_ || finished_ || disconnected_ || !body_.empty()) return false;
  body_ = ": keep-alive\n\n";
  notify(lock);
  return true;
}

void PendingAnswer::disconnect() {
  std::function<void()> gone;
  {
    const std::lock_guard lock(mutex_);
    if (disconnected_) return;
    disconnected_ = true;
    gone = std::exchange(gone_, nullptr);
  }
  if (gone) until_memory(gone);
}

}  // namespace quire
