#include "serve/protocols/openai/batch/collected_exchange.h"

#include <utility>

#include <fmt/format.h>

#include "serve/http/http_error.h"

namespace quire {

CollectedExchange::CollectedExchange(HttpRequest request, std::uint64_t max_bytes, Done done)
    : request_(std::move(request)), max_bytes_(max_bytes), done_(std::move(done)) {}

void CollectedExchange::respond(HttpResponse response) {
  std::unique_lock lock(mutex_);
  if (std::exchange(answered_, true) || aborted_) return;
  overflow_ = response.body.size() > max_bytes_;
  response_ = std::move(response);
  end(std::move(lock));
}

void CollectedExchange::start_stream(HttpResponse head) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(answered_, true) || aborted_) return;
  response_ = std::move(head);
}

void CollectedExchange::write(std::string_view piece) {
  const std::lock_guard lock(mutex_);
  if (!answered_ || ended_ || aborted_ || overflow_) return;
  overflow_ = response_.body.size() + piece.size() > max_bytes_;
  if (!overflow_) response_.body += piece;
}

void CollectedExchange::finish() {
  std::unique_lock lock(mutex_);
  if (!answered_ || ended_ || aborted_) return;
  end(std::move(lock));
}

void CollectedExchange::end(std::unique_lock<std::mutex> lock) {
  ended_ = true;
  // They may own this object: it ends with the answer.
  const Done done = std::exchange(done_, nullptr);
  const std::function<void()> gone = std::exchange(gone_, nullptr);
  HttpResponse response = std::move(response_);
  if (overflow_) {
    response =
        http_error(500, fmt::format("The answer has more than {} bytes, which is the limit of a "
                                    "batch's line",
                                    max_bytes_));
  }
  lock.unlock();
  done(std::move(response));
}

void CollectedExchange::on_disconnect(std::function<void()> gone) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    if (!aborted_) {
      gone_ = std::move(gone);
      return;
    }
  }
  gone();
}

void CollectedExchange::abort() {
  std::function<void()> gone;
  Done dropped;
  {
    const std::lock_guard lock(mutex_);
    if (ended_ || std::exchange(aborted_, true)) return;
    gone = std::exchange(gone_, nullptr);
    dropped = std::exchange(done_, nullptr);
  }
  if (gone) gone();
}

}  // namespace quire
