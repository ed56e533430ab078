#include "serve/tracing/span_exporter.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "base/exhaustion.h"
#include "base/json.h"
#include "base/log.h"
#include "base/thread.h"
#include "serve/http/field_text.h"

namespace quire {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMaxWords = 200;  // bytes that the log shows of what a collector says

// The codes that OTLP/HTTP names; also where no answer came.
bool worth_another_try(const PostResult& answer) {
  return answer.status == 0 || answer.status == 429 || answer.status == 502 ||
         answer.status == 503 || answer.status == 504;
}

// What a collector says of spans that it has not accepted, in an answer of success.
struct PartialSuccess {
  std::int64_t rejected = 0;
  std::string message;
};

PartialSuccess read_partial_success(const std::string& body) {
  PartialSuccess partial;
  const auto value = parse_json(body, "answer");
  if (!value.ok() || !value->is_object()) return partial;
  const json::value* found = value->get_object().if_contains("partialSuccess");
  if (found == nullptr || !found->is_object()) return partial;
  if (const json::value* count = found->get_object().if_contains("rejectedSpans")) {
    if (count->is_int64()) partial.rejected = count->get_int64();
    if (count->is_string()) {
      const json::string& text = count->get_string();
      std::from_chars(text.data(), text.data() + text.size(), partial.rejected);
    }
  }
  const json::value* message = found->get_object().if_contains("errorMessage");
  if (message != nullptr && message->is_string()) partial.message = message->get_string();
  return partial;
}

}  // namespace

SpanExporter::SpanExporter(SpanExporterConfig config, std::unique_ptr<HttpPost> post)
    : config_(std::move(config)),
      post_(std::move(post)),
      jitter_(std::random_device()()),
      thread_(new_thread("quire-otlp", [this] { run(); })) {}

SpanExporter::~SpanExporter() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    end_ = Clock::now() + config_.flush_time;
  }
  changed_.notify_all();
  thread_.join();
}

void SpanExporter::add(std::vector<TraceSpan> spans) {
  std::size_t before = 0;
  std::size_t after = 0;
  {
    const std::lock_guard lock(mutex_);
    before = queue_.size();
    after = before + spans.size();
    if (after > config_.max_queued_spans) {
      stats_.dropped_queue_full += std::ssize(spans);
      return;
    }
    std::ranges::move(spans, std::back_inserter(queue_));
  }
  const std::size_t full = config_.max_batch_spans;
  if (before == 0 || (before < full && after >= full)) changed_.notify_one();
}

SpanExportStats SpanExporter::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void SpanExporter::run() {
  while (true) {
    std::vector<TraceSpan> batch;
    until_memory([&] { batch = next_batch(); });
    if (batch.empty()) return;
    try {
      deliver(batch);
    } catch (const std::bad_alloc&) {
      drop(&SpanExportStats::dropped_unreachable, std::ssize(batch));
    }
  }
}

// Waits for spans, and then a while for more; empty: it is over.
std::vector<TraceSpan> SpanExporter::next_batch() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
  changed_.wait_for(lock, config_.batch_delay,
                    [this] { return stopping_ || queue_.size() >= config_.max_batch_spans; });
  const auto count = static_cast<std::ptrdiff_t>(std::min(queue_.size(), config_.max_batch_spans));
  std::vector<TraceSpan> batch(std::make_move_iterator(queue_.begin()),
                               std::make_move_iterator(queue_.begin() + count));
  queue_.erase(queue_.begin(), queue_.begin() + count);
  return batch;
}

void SpanExporter::deliver(const std::vector<TraceSpan>& batch) {
  const std::int64_t num_spans = std::ssize(batch);
  const std::string body = to_otlp_json(config_.source, batch);
  const Clock::time_point since = Clock::now();
  milliseconds backoff = config_.first_backoff;
  while (!out_of_time()) {
    const PostResult answer = post_->post(body, [this] { return out_of_time(); });
    if (!worth_another_try(answer)) return take_answer(answer, num_spans);
    note_failure(answer.status == 0 ? answer.error : fmt::format("HTTP status {}", answer.status));
    // Who cannot be reached at the end will not be.
    const bool last = [&] {
      const std::lock_guard lock(mutex_);
      return stopping_ && answer.status == 0;
    }();
    if (last) break;
    std::uniform_real_distribution<double> factor(0.5, 1.5);
    Clock::duration wait = milliseconds(
        static_cast<std::int64_t>(static_cast<double>(backoff.count()) * factor(jitter_)));
    if (answer.retry_after) wait = *answer.retry_after;
    backoff = std::min(2 * backoff, config_.longest_backoff);
    if (!wait_to_retry(since, wait)) break;
  }
  drop(&SpanExportStats::dropped_unreachable, num_spans);
}

// Waits until a batch may be tried again; false: there is no time for that. The end of the program
// shortens the wait: then there is one more try at once.
bool SpanExporter::wait_to_retry(Clock::time_point since, Clock::duration backoff) {
  std::unique_lock lock(mutex_);
  const Clock::time_point until = Clock::now() + backoff;
  if (until > since + config_.retry_time) return false;
  if (!stopping_) {
    changed_.wait_until(lock, until, [this] { return stopping_; });
    return true;
  }
  if (until > end_) return false;
  lock.unlock();
  std::this_thread::sleep_until(until);
  return true;
}

void SpanExporter::take_answer(const PostResult& answer, std::int64_t num_spans) {
  if (answer.status < 200 || answer.status > 299) {
    note_failure(fmt::format("HTTP status {}: {}", answer.status, shown(answer.body, kMaxWords)));
    return drop(&SpanExportStats::dropped_rejected, num_spans);
  }
  const PartialSuccess partial = read_partial_success(answer.body);
  const std::int64_t rejected = std::clamp<std::int64_t>(partial.rejected, 0, num_spans);
  {
    const std::lock_guard lock(mutex_);
    stats_.exported += num_spans - rejected;
    stats_.dropped_rejected += rejected;
  }
  if (rejected > 0) {
    return note_failure(
        fmt::format("{} spans rejected: {}", rejected, shown(partial.message, kMaxWords)));
  }
  if (std::exchange(failing_, false)) log_info("traces are sent to {} again", config_.url);
}

void SpanExporter::drop(std::int64_t SpanExportStats::*reason, std::int64_t count) {
  const std::lock_guard lock(mutex_);
  stats_.*reason += count;
}

// One line when it begins, not one for each batch.
void SpanExporter::note_failure(const std::string& why) {
  if (std::exchange(failing_, true)) return;
  log_warning("traces cannot be sent to {}: {}", config_.url, why);
}

bool SpanExporter::out_of_time() {
  const std::lock_guard lock(mutex_);
  return stopping_ && Clock::now() >= end_;
}

}  // namespace quire
