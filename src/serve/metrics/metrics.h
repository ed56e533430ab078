// The server's metrics for Prometheus: vLLM's names, so that existing dashboards work, and Quire's
// own conservation set, whose sums must hold at every scrape (docs/server.md).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/api.h"

namespace quire {

struct HttpServerStats;
struct SpanExportStats;

// A histogram of the tokens that a step computes. Written by the engine's thread, which must not
// wait for anybody.
class StepMeter {
 public:
  static constexpr std::array<std::int64_t, 13> kBounds = {1,   8,    16,   32,   64,   128,  256,
                                                           512, 1024, 2048, 4096, 8192, 16384};

  void record(const StepRecord& step);

  std::array<std::int64_t, kBounds.size() + 1> counts() const;  // of each bucket alone
  std::int64_t sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  std::array<std::atomic<std::int64_t>, kBounds.size() + 1> counts_{};
  std::atomic<std::int64_t> sum_ = 0;
};

// What was asked for, and what its outputs came to.
struct RequestShape {
  bool generates = true;  // false: it is to be embedded, and has no outputs
  std::int64_t n = 1;
  std::int64_t max_tokens = 0;
  std::int64_t most_output_tokens = 0;  // of one of them
  Duration step_time{};                 // RequestMetrics::step_time, of all
};

// US dollars, of a time that costs so much an hour.
constexpr double usd_of(double seconds, double price_per_hour) {
  return seconds * price_per_hour / 3600;
}

class Metrics {
 public:
  // `price_per_hour`: ServiceConfig's.
  Metrics(const Engine& engine, const std::string& model_name, const StepMeter& steps,
          std::optional<double> price_per_hour = {});
  ~Metrics();

  // One of a request's outputs has ended ("stop", "length", "abort", "error").
  void record_output(std::string_view finish_reason, std::int64_t num_tokens);
  // The same, of one that the scheduler had: what it waited for, and what the prefix cache lacked.
  void record_timeline(const RequestTimeline& timeline);
  // A request has ended with all its outputs; `last` is the last piece of it.
  void record_request(const RequestOutput& last, const RequestShape& shape);
  // A token came, `gap` after the one before it.
  void record_inter_token(Duration gap);

  // The text of GET /metrics. `spans`: null where no traces are exported. `predicted_wait_s` of a
  // request that came now, where it is known.
  std::string expose(const HttpServerStats& http, const SpanExportStats* spans,
                     std::optional<double> predicted_wait_s) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
