// Delivers spans to a collector, from a thread of its own: those who have spans never wait. What
// the collector does not accept in time is dropped and counted.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "serve/tracing/http_post.h"
#include "serve/tracing/otlp_json.h"
#include "serve/tracing/trace_span.h"

namespace quire {

struct SpanExporterConfig {
  std::string url;  // for messages
  SpanSource source;
  std::size_t max_queued_spans = 8192;
  std::size_t max_batch_spans = 512;
  std::chrono::milliseconds batch_delay{1'000};  // the longest that a span waits for others
  // Between attempts to deliver a batch: doubles from the first to the longest, give or take half.
  std::chrono::milliseconds first_backoff{500};
  std::chrono::milliseconds longest_backoff{30'000};
  std::chrono::milliseconds retry_time{60'000};  // after which a batch is dropped
  std::chrono::milliseconds flush_time{5'000};   // at the end, for what is still there
};

// Each span ends in one of these; what is in neither is on its way.
struct SpanExportStats {
  std::int64_t exported = 0;
  std::int64_t dropped_queue_full = 0;  // they never left
  std::int64_t dropped_rejected = 0;    // the collector will not have them
  // It did not answer, or was busy, for too long; or there was no memory to ask it.
  std::int64_t dropped_unreachable = 0;
};

class SpanExporter {
 public:
  // Throws as new_thread() does.
  SpanExporter(SpanExporterConfig config, std::unique_ptr<HttpPost> post);
  ~SpanExporter();  // delivers what is there, in at most `flush_time`

  SpanExporter(const SpanExporter&) = delete;
  SpanExporter& operator=(const SpanExporter&) = delete;

  // Queues spans that belong together, all of them or, where the queue is full, none. Any thread;
  // returns at once.
  void add(std::vector<TraceSpan> spans);

  SpanExportStats stats() const;

 private:
  using Clock = std::chrono::steady_clock;

  void run();
  std::vector<TraceSpan> next_batch();
  void deliver(const std::vector<TraceSpan>& batch);
  bool wait_to_retry(Clock::time_point since, Clock::duration backoff);
  void take_answer(const PostResult& answer, std::int64_t num_spans);
  void drop(std::int64_t SpanExportStats::*reason, std::int64_t count);
  void note_failure(const std::string& why);
  bool out_of_time();

  SpanExporterConfig config_;
  std::unique_ptr<HttpPost> post_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<TraceSpan> queue_;
  SpanExportStats stats_;
  bool stopping_ = false;
  Clock::time_point end_;  // of the flush, once it is stopping

  // Of the thread alone.
  bool failing_ = false;  // the last attempt failed, and the log says so
  std::minstd_rand jitter_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace quire
