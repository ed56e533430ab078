// The figures of a run.
#pragma once

#include <cstdint>
#include <optional>

#include "apps/bench_serve/goodput.h"
#include "apps/bench_serve/record.h"
#include "apps/statistics.h"
#include "base/json.h"

namespace quire::bench {

struct Summary {
  // planned = completed + failed + unfinished + not_sent
  std::int64_t planned = 0;
  std::int64_t completed = 0;
  std::int64_t failed = 0;
  std::int64_t unfinished = 0;
  std::int64_t not_sent = 0;

  double duration = 0;  // seconds
  // Of completed requests.
  std::int64_t input_tokens = 0;
  std::int64_t cached_tokens = 0;
  std::int64_t output_tokens = 0;
  std::int64_t text_events = 0;
  std::int64_t with_usage = 0;       // requests whose tokens the server has counted
  std::int64_t unknown_prompts = 0;  // requests whose prompt's length nobody said
  // Pieces of text that were received for requests that failed or were cut short.
  std::int64_t lost_text_events = 0;

  // Seconds; of completed requests.
  Statistics ttft;
  Statistics tpot;
  Statistics itl;  // of all pieces of text that were received
  Statistics e2el;
  // Seconds that the client itself was late.
  Statistics client_lag;
  std::int64_t peak_concurrency = 0;
  std::optional<std::int64_t> good;  // requests that kept the objectives, where there are any

  double requests_per_s() const { return per_s(completed); }
  double output_tokens_per_s() const { return per_s(output_tokens); }
  double total_tokens_per_s() const { return per_s(input_tokens + output_tokens); }
  double goodput_per_s() const { return per_s(good.value_or(0)); }

 private:
  double per_s(std::int64_t count) const {
    return duration > 0 ? static_cast<double>(count) / duration : 0;
  }
};

Summary summarize(const RunRecord& run, const Objectives& objectives);

}  // namespace quire::bench
