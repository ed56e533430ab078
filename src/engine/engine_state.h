// What an engine shows of itself, as plain data: numbers after each step, and between two steps who
// runs, who waits, and who holds which part of the KV cache.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "core/pinned_prefixes.h"
#include "core/request_timeline.h"
#include "core/step.h"
#include "engine/speculation_report.h"

namespace quire {

class Scheduler;

// Requests that were refused at admission, for one cause.
struct RejectionCount {
  std::string_view cause;  // "empty_prompt" and so on
  std::int64_t count = 0;

  bool operator==(const RejectionCount&) const = default;
};

// The pages of a KV group: layers that keep the same tokens for later ones, or a state. Over all
// groups they are EngineStats::blocks_used and blocks_cached.
struct KvGroupStats {
  std::int32_t window = 0;  // tokens that its layers read; 0: all before
  bool state = false;       // its layers keep a state of fixed size
  std::int64_t pages_used = 0;
  std::int64_t pages_cached = 0;  // free, but their content may still be used

  bool operator==(const KvGroupStats&) const = default;
};

// Gauges, and counters since the start. A request with n outputs counts as n. For every request
// that was added, each prompt token is counted once: computed, cached (found computed by another),
// dropped (its request was aborted first), or still pending.
struct EngineStats {
  std::int64_t num_waiting = 0;  // preempted ones included
  std::int64_t num_running = 0;
  std::int64_t blocks_total = 0;  // = free + used; pages, where a block has several
  std::int64_t blocks_free = 0;
  std::int64_t blocks_used = 0;
  std::int64_t blocks_leaked = 0;  // always 0
  std::int64_t blocks_cached = 0;  // free, but their content may still be used
  std::int64_t blocks_shared = 0;  // used by more than one request
  std::int64_t blocks_saved = 0;   // that would be used besides, were none shared
  std::vector<KvGroupStats> kv_groups;
  Duration max_step{};             // that steps are planned for now; zero: no limit
  std::int64_t blocks_tiered = 0;  // in the files of --kv-offload-path, or on their way there
  std::int64_t num_fetching = 0;   // of those that wait: for blocks from there
  std::int64_t num_pins = 0;       // pinned prefixes
  std::int64_t blocks_pinned = 0;  // that these hold, those of several more than once

  std::int64_t num_steps = 0;     // that were not empty
  std::int64_t num_added = 0;     // = finished + aborted + waiting + running
  std::int64_t num_finished = 0;  // by themselves: stop or length
  std::int64_t num_aborted = 0;
  std::vector<RejectionCount> rejections;  // of every cause
  std::int64_t num_preemptions = 0;
  // Of these, where the blocks go to the lower tier and come back (core/preemption.h).
  std::int64_t num_preemptions_by_swap = 0;
  std::int64_t num_forks = 0;               // outputs that started with a sibling's blocks
  std::int64_t prompt_tokens_added = 0;     // = computed + cached + dropped + pending
  std::int64_t prompt_tokens_computed = 0;  // each once
  std::int64_t prompt_tokens_cached = 0;    // found in the prefix cache or with a fork's parent
  std::int64_t prompt_tokens_dropped = 0;
  std::int64_t prompt_tokens_pending = 0;
  std::int64_t output_tokens_sampled = 0;
  std::int64_t output_tokens_computed = 0;  // each once; an output's last token never is
  std::int64_t tokens_recomputed = 0;       // prompt and output, after preemptions
  // For outputs that had ended (static batching, several steps in flight) or lost their blocks, and
  // drafts that were wrong.
  std::int64_t tokens_discarded = 0;
  // Of the time of steps, what was divided among requests (RequestMetrics::step_time).
  std::int64_t step_time_charged_ns = 0;
  // Tokens of requests that started, looked up in the prefix cache; and found.
  std::int64_t prefix_cache_queries = 0;
  std::int64_t prefix_cache_hits = 0;
  // Drafts (speculation): how often a request had some in a step, and how many they were.
  std::int64_t num_drafted_rows = 0;
  std::int64_t draft_tokens = 0;  // = accepted + rejected + in flight
  std::int64_t draft_tokens_accepted = 0;
  std::int64_t draft_tokens_rejected = 0;
  std::array<std::int64_t, 32> draft_tokens_accepted_at{};  // by place: 0 is the first
  SpeculationTimes speculation;                             // all zero without speculation
  // --kv-offload-path: fetches that ended; blocks that left the prefix cache for there, that came
  // back, and that were not there any more or damaged.
  std::int64_t num_kv_fetches = 0;
  std::int64_t blocks_offloaded = 0;
  std::int64_t blocks_fetched = 0;
  std::int64_t blocks_fetch_failed = 0;
  // Tokens of requests that started which were not in the prefix cache before; and that came back.
  std::int64_t external_prefix_cache_queries = 0;
  std::int64_t external_prefix_cache_hits = 0;
  TierStats tier;  // the files

  bool operator==(const EngineStats&) const = default;
};

// One output of a request, as it stands.
struct OutputState {
  RequestId id = 0;         // StepShare::output_id
  std::string external_id;  // GenerateRequest::external_id
  std::int32_t index = 0;   // which of the n outputs
  std::int32_t priority = 0;
  std::int32_t num_prompt_tokens = 0;
  std::int32_t num_cached_tokens = 0;
  std::int32_t num_computed_tokens = 0;
  std::int32_t num_tokens = 0;      // prompt and output so far
  std::int32_t max_num_tokens = 0;  // at its longest
  std::int32_t num_preemptions = 0;
  std::int32_t num_blocks = 0;  // that it holds; pages, where a block has several
  Instant arrival{};
  std::optional<WaitCause> wait;  // what it waits for now; a running one may wait, too
  Duration waited{};              // for this cause, in all
};

// How a block of the KV cache is used: one of these, or its holder.
using BlockUse = std::uint64_t;
inline constexpr BlockUse kBlockFree = 0;    // nothing of use
inline constexpr BlockUse kBlockCached = 1;  // free, but its content may be found and used again
// Held for an output that has ended: a row of a static batch.
inline constexpr BlockUse kBlockRetained = 2;
inline constexpr BlockUse kBlockPinned = 3;  // by a pinned prefix, and by no output that runs

// Held by an output, and by others too where it is shared: then the first of them in the order in
// which they run.
constexpr BlockUse block_held(RequestId output_id, bool shared) {
  return 4 + 2 * output_id + (shared ? 1 : 0);
}

// An engine between two steps, as Engine::inspect() shows it, on the engine's thread and for the
// length of the call. `now`: as the engine's clock has it.
class EngineState {
 public:
  explicit EngineState(const Scheduler& scheduler, const SpeculationTimes& speculation = {})
      : scheduler_(scheduler), speculation_(speculation) {}

  EngineStats stats() const;
  // The first `most` that run, in their order; that wait, the next one first.
  std::vector<OutputState> running(std::size_t most, Instant now) const;
  std::vector<OutputState> waiting(std::size_t most, Instant now) const;
  // nullopt, null: it neither runs nor waits. The timeline is a copy.
  std::optional<OutputState> find(RequestId output_id, Instant now) const;
  std::shared_ptr<const RequestTimeline> timeline(RequestId output_id) const;
  std::span<const PinnedPrefix> pins() const;
  // One entry a block, or a page where a block has several. O(blocks + blocks held).
  void read_block_uses(std::vector<BlockUse>& uses) const;

 private:
  const Scheduler& scheduler_;
  SpeculationTimes speculation_;
};

}  // namespace quire
