// What a glance at the scheduler takes with it: plain data, read on the engine's thread between two
// steps and made into text elsewhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/api.h"

namespace quire {

// One output of a request, as it stands.
struct SequenceLook {
  RequestId id = 0;         // StepShare::output_id
  std::string external_id;  // the id in the answer to its caller
  std::int32_t index = 0;   // which of the n outputs
  std::int32_t priority = 0;
  std::int32_t num_prompt_tokens = 0;
  std::int32_t num_cached_tokens = 0;
  std::int32_t num_computed_tokens = 0;
  std::int32_t num_tokens = 0;      // prompt and output so far
  std::int32_t max_num_tokens = 0;  // at its longest
  std::int32_t num_preemptions = 0;
  std::int32_t num_blocks = 0;    // that it holds; pages, where a block takes several
  Duration age{};                 // since it arrived
  std::optional<WaitCause> wait;  // what it waits for now; a running one may wait, too
  Duration waited{};              // for this cause, in all
};

struct EngineLook {
  // Listed of each, the first ones; SchedulerStats has the true numbers.
  static constexpr std::size_t kMaxRunning = 512;
  static constexpr std::size_t kMaxWaiting = 128;

  Instant time{};
  std::int32_t max_num_seqs = 0;
  std::int32_t max_num_batched_tokens = 0;
  SchedulerStats stats;
  std::vector<SequenceLook> running;  // in their order
  std::vector<SequenceLook> waiting;  // the next one first
};

// Engine thread, through Engine::inspect. O(requests listed).
EngineLook look_at(const Scheduler& scheduler, Instant now);

}  // namespace quire
