// What random traces have met. For the tests of this folder.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/scheduler.h"

namespace quire {

// Over all traces: shows that the traffic reaches the states it is meant to.
struct Coverage {
  std::int64_t steps = 0;
  std::int64_t preemptions = 0;
  std::int64_t swapped = 0;  // of these, to the lower tier
  std::int64_t recomputed = 0;
  std::int64_t finished_stop = 0;
  std::int64_t finished_length = 0;
  std::int64_t forks = 0;
  std::int64_t cached = 0;     // prompt tokens
  std::int64_t discarded = 0;  // tokens of static batches
  std::int64_t prompt_logprobs = 0;
  std::int64_t pooled = 0;
  std::int64_t pooled_preempted = 0;
  std::int64_t copied_blocks = 0;
  std::int64_t partial_hits = 0;  // starts within a cached block
  std::int64_t beams = 0;         // that were new to the executor
  std::int64_t searches = 0;
  std::int64_t searches_preempted = 0;
  std::int64_t drafts = 0;
  std::int64_t drafts_right = 0;
  std::int64_t truncated_tables = 0;
  std::int64_t branched = 0;  // drafts on other paths than the first
  std::int64_t adopted_blocks = 0;
  std::int64_t passed_pages = 0;     // released behind a window while their request ran
  std::int64_t chunks_over_end = 0;  // of more tokens than a window has
  std::int64_t offloaded_blocks = 0;
  std::int64_t fetched_blocks = 0;
  std::int64_t lost_blocks = 0;  // fetched in vain
  std::int64_t pinned = 0;
  std::int64_t pins_missed = 0;  // the prefix cache had not all of the prompt any more
  std::int64_t pin_hits = 0;
  std::array<std::int64_t, kNumRejectCauses> rejected{};
  std::array<std::int64_t, kNumWaitCauses> waited{};
  // Aborts by state of the request, outside a step and while one was in flight.
  std::array<std::array<std::int64_t, 2>, 3> aborted{};
};

// What became of a request that has ended.
inline void note_ended(const Request& request, Instant now, Coverage& coverage) {
  for (std::size_t i = 0; i < kNumWaitCauses; ++i) {
    const Duration waited = request.timeline().total(static_cast<WaitCause>(i), now);
    coverage.waited[i] += waited > Duration::zero() ? 1 : 0;
  }
  coverage.preemptions += request.num_preemptions();
  coverage.recomputed += request.num_recomputed_tokens();
  coverage.finished_stop += request.finish_reason() == FinishReason::kStop ? 1 : 0;
  coverage.finished_length += request.finish_reason() == FinishReason::kLength ? 1 : 0;
}

// Requests of a plan that start within a cached block; forks, which do so too, do not count.
inline std::int64_t num_partial_hits(const Scheduler& scheduler, const SchedulerOutput& plan) {
  return std::ranges::count_if(plan.new_requests, [&](const NewRequestData& each) {
    return each.sample_index == 0 &&
           scheduler.find(each.request_id)->num_computed_tokens() % scheduler.config().block_size !=
               0;
  });
}

}  // namespace quire
