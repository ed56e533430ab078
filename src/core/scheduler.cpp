#include "core/scheduler.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/checked.h"

namespace quire {

Scheduler::Scheduler(SchedulerConfig config)
    : config_(std::move(config)),
      kv_(config_.block_size, config_.num_blocks, config_.enable_prefix_caching, config_.kv_groups,
          config_.kv_tier),
      batch_(config_.batching, config_.max_num_seqs, config_.max_batch_delay, config_.admission),
      retained_(config_.max_model_len),
      steps_(config_.max_steps_in_flight, config_.max_num_seqs) {
  assert(config_.validate().ok());
  const auto num_seqs = static_cast<std::size_t>(config_.max_num_seqs);
  kv_.reserve(config_.max_num_seqs,
              static_cast<std::int32_t>(ceil_div(config_.max_model_len, config_.block_size)));
  waiting_.reserve(num_seqs);  // all that run may be preempted; add() makes more room
  running_.reserve(num_seqs);
  removed_request_ids_.reserve(2 * num_seqs);
  landed_.reserve(num_seqs);
  needs_.reserve(num_seqs + 1);
  draft_paths_.reserve(kMaxDrafts);
}

void Scheduler::enqueue(Request& request) {
  const auto later = [this](const Request* a, const Request* b) { return goes_before(*b, *a); };
  waiting_.insert(std::lower_bound(waiting_.begin(), waiting_.end(), &request, later), &request);
}

Status Scheduler::add(const AddRequest& request, Instant now) {
  if (const auto refusal = admission_refusal(request)) {
    ++counters_.num_rejected[static_cast<std::size_t>(refusal->cause)];
    return refusal->status;
  }
  const SamplingParams& params = *request.sampling_params;
  const auto num_outputs = params.is_beam_search() ? 1 : static_cast<std::int32_t>(params.n);
  waiting_.reserve(running_.size() + waiting_.size() + static_cast<std::size_t>(num_outputs));
  const GroupId group_id = num_arrivals_;
  waits_for_fetch_ = false;
  for (std::int32_t i = 0; i < num_outputs; ++i) {
    const OutputIdentity identity = {.id = request.request_id + static_cast<RequestId>(i),
                                     .sample_index = i,
                                     .group_id = group_id,
                                     .arrival_index = num_arrivals_++};
    auto added = std::make_unique<Request>(request, identity, config_.eos_token_ids,
                                           config_.max_model_len, now);
    if (config_.policy == SchedulingPolicy::kFair) added->set_share(&shares_.join(request.user));
    ++counters_.num_added;
    counters_.prompt_tokens_added += added->num_prompt_tokens();
    enqueue(*added);
    hold(*added, WaitCause::kQueueOrder, {}, now);
    const RequestId id = added->id();
    requests_.emplace(id, std::move(added));
  }
  return {};
}

std::unique_ptr<const Request> Scheduler::abort(RequestId request_id, Instant now) {
  const auto found = requests_.find(request_id);
  if (found == requests_.end()) return nullptr;
  Request& request = *found->second;
  request.abort(now);
  waits_for_fetch_ = false;
  ++counters_.num_aborted;
  counters_.prompt_tokens_dropped += request.num_uncomputed_prompt_tokens();
  auto aborted = take(request, /*retain_row=*/false);
  if (running_.empty()) drop_retained_rows(0);
  return aborted;
}

// The request gets no tokens, for this cause. When such a wait begins, records for whom: of those
// that run, the ones that are in the step so far; of the queue, those before it.
void Scheduler::hold(Request& request, WaitCause cause, const Admission& admission, Instant now) {
  if (!request.wait(cause, now)) return;
  Blockers blockers;
  switch (cause) {
    case WaitCause::kQueueOrder: {
      const auto own = std::find(waiting_.rbegin(), waiting_.rend(), &request);
      blockers.count = static_cast<std::int32_t>(own - waiting_.rbegin());
      for (std::int32_t i = 0; i < blockers.num_ids(); ++i) {
        blockers.ids[static_cast<std::size_t>(i)] = waiting_.rbegin()[i]->id();
      }
      break;
    }
    case WaitCause::kTokenBudget:
    case WaitCause::kStepTime:
      for (const StepsInFlight::Share& each : steps_.next().shares) blockers.add(each.request_id);
      break;
    case WaitCause::kForkParent:
      blockers.add(admission.fork_parent->id());
      break;
    case WaitCause::kPrefixInFlight:
      blockers.add(admission.computes_prefix->id());
      break;
    case WaitCause::kKvFetch:
      break;
    case WaitCause::kMaxNumSeqs:
    case WaitCause::kNoFreeBlocks:
    case WaitCause::kBatch:
    case WaitCause::kAdmissionPace:
    case WaitCause::kPreempted:
      blockers = others_running(request);
      break;
  }
  request.wait_for(blockers);
}

Blockers Scheduler::others_running(const Request& request) const {
  Blockers blockers;
  for (const Request* other : running_) {
    if (other != &request) blockers.add(other->id());
  }
  return blockers;
}

// Removes a finished request from its queue and from all steps, frees its blocks and notes that the
// executor is to be told; unless its row stays in the batch, with the tokens that steps in flight
// give it.
std::unique_ptr<const Request> Scheduler::take(Request& request, bool retain_row) {
  const StepsInFlight::Forgotten in_flight = steps_.forget(request);
  if (request.finish_reason() != FinishReason::kAbort) {
    counters_.tokens_discarded += in_flight.num_tokens;
  }
  count_drafts(request, 0, in_flight.num_drafts);
  const bool runs = std::erase(running_, &request) > 0;
  if (!runs && std::erase(waiting_, &request) == 0) std::erase(fetching_, &request);
  if (runs && retain_row) {
    retained_.add(request.id(), request.num_tokens() + in_flight.num_tokens);
  } else if (runs) {
    let_go(request, in_flight.num_tokens == 0, removed_request_ids_);
  }
  if (request.share() != nullptr) {
    request.share()->num_running -= runs ? 1 : 0;
    shares_.leave(*request.share());
  }
  return std::move(requests_.extract(request.id()).mapped());
}

// Of one that runs: its blocks are free, and `removed` gets what the executor knows of it. What is
// computed stays to be found, to the last token; of beams, whose tokens may have changed since,
// full blocks alone, and of a state that a step in flight goes on with (not `at_rest`), too.
void Scheduler::let_go(const Request& request, bool at_rest, std::vector<RequestId>& removed) {
  if (const Beams* beams = request.beams()) {
    for (const RequestId id : beams->rows.placed()) kv_.free(id);
    removed.insert(removed.end(), beams->rows.told().begin(), beams->rows.told().end());
    return;
  }
  if (at_rest || !kv_.keeps_states()) {
    kv_.keep_end(request.id(), request.token_ids(), request.num_computed_tokens(),
                 request.cache_scope());
  }
  kv_.free(request.id());
  removed.push_back(request.id());
}

bool Scheduler::has_work() const {
  return !running_.empty() || !waiting_.empty() || !removed_request_ids_.empty();
}

std::optional<Instant> Scheduler::next_deadline() const {
  if (steps_.full() || !has_work()) return std::nullopt;
  if (waits_for_fetch_ && running_.empty()) return std::nullopt;
  if (!running_.empty() || waiting_.empty() || !removed_request_ids_.empty()) {
    return Instant::zero();
  }
  return batch_.forms_at(std::ssize(waiting_), oldest_arrival());
}

const Request* Scheduler::find(RequestId request_id) const {
  const auto found = requests_.find(request_id);
  return found == requests_.end() ? nullptr : found->second.get();
}

SchedulerStats Scheduler::stats() const {
  SchedulerStats stats = counters_;
  const BlockPool& pool = kv_.pool();
  stats.num_waiting = std::ssize(waiting_) + std::ssize(fetching_);
  stats.num_fetching = std::ssize(fetching_);
  stats.blocks_tiered = kv_.tier().num_blocks();
  stats.num_running = std::ssize(running_);
  stats.num_pins = std::ssize(pinned_.all());
  stats.blocks_pinned = pinned_.num_pages();
  stats.blocks_total = pool.num_blocks();
  stats.blocks_free = pool.num_free_blocks();
  stats.blocks_used = pool.num_used_blocks();
  stats.blocks_leaked = kv_.blocks_leaked();
  stats.blocks_cached = kv_.num_cached_blocks();
  stats.blocks_shared = pool.num_shared_blocks();
  stats.blocks_saved = pool.num_references() - pool.num_used_blocks();
  stats.max_step = pace_.max_step;
  stats.prompt_tokens_pending = stats.prompt_tokens_added - stats.prompt_tokens_computed -
                                stats.prompt_tokens_cached - stats.prompt_tokens_dropped;
  return stats;
}

}  // namespace quire
