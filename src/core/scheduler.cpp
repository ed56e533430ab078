#include "core/scheduler.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"

namespace quire {

Scheduler::Scheduler(SchedulerConfig config)
    : config_(std::move(config)),
      kv_(config_.block_size, config_.num_blocks, config_.enable_prefix_caching),
      batch_(config_.batching, config_.max_num_seqs, config_.max_batch_delay),
      retained_(config_.max_model_len) {
  assert(config_.validate().ok());
  const auto num_seqs = static_cast<std::size_t>(config_.max_num_seqs);
  kv_.reserve(config_.max_num_seqs,
              static_cast<std::int32_t>(ceil_div(config_.max_model_len, config_.block_size)));
  waiting_.reserve(num_seqs);  // all that run may be preempted; add() makes more room
  running_.reserve(num_seqs);
  in_flight_.reserve(num_seqs);
  removed_request_ids_.reserve(2 * num_seqs);
}

bool Scheduler::goes_before(const Request& a, const Request& b) const {
  if (config_.policy == SchedulingPolicy::kPriority && a.priority() != b.priority()) {
    return a.priority() < b.priority();
  }
  return a.arrival_index() < b.arrival_index();
}

template <typename Less>
void Scheduler::insert_sorted(std::vector<Request*>& queue, Request& request, Less less) {
  queue.insert(std::lower_bound(queue.begin(), queue.end(), &request, less), &request);
}

Status Scheduler::add(const AddRequest& request, Instant now) {
  if (const auto refusal = admission_refusal(request)) {
    ++counters_.num_rejected[static_cast<std::size_t>(refusal->cause)];
    return refusal->status;
  }
  const auto num_outputs = static_cast<std::int32_t>(request.sampling_params->n);
  waiting_.reserve(running_.size() + waiting_.size() + static_cast<std::size_t>(num_outputs));
  const GroupId group_id = num_arrivals_;
  for (std::int32_t i = 0; i < num_outputs; ++i) {
    const OutputIdentity identity = {.id = request.request_id + static_cast<RequestId>(i),
                                     .sample_index = i,
                                     .group_id = group_id,
                                     .arrival_index = num_arrivals_++};
    auto added = std::make_unique<Request>(request, identity, config_.eos_token_ids,
                                           config_.max_model_len, now);
    ++counters_.num_added;
    counters_.prompt_tokens_added += added->num_prompt_tokens();
    insert_sorted(waiting_, *added,
                  [this](const Request* a, const Request* b) { return goes_before(*b, *a); });
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
  for (InFlight& each : in_flight_) {
    if (each.request == &request) each.request = nullptr;
  }
  request.abort(now);
  ++counters_.num_aborted;
  counters_.prompt_tokens_dropped += request.num_uncomputed_prompt_tokens();
  auto aborted = take(request, /*retain_row=*/false);
  if (running_.empty()) drop_retained_rows(0);
  return aborted;
}

Status Scheduler::schedule(Instant now, SchedulerOutput& plan) {
  if (step_in_flight_ != 0) {
    return Status::internal(
        fmt::format("schedule() was called while step {} is in flight", step_in_flight_));
  }
  plan.clear();
  plan.removed_request_ids.swap(removed_request_ids_);
  StepBudget budget = budget_of_step();
  form_batch(now);

  for (std::size_t next = 0; next < running_.size();) {  // preemption takes from the end
    const bool first = next == 0;
    Request& request = *running_[next++];
    const std::int32_t num_computed = request.num_computed_tokens();
    const std::int32_t num_pending = request.num_pending_tokens();
    const bool row = num_pending == 1;
    const std::int32_t num_tokens =
        row ? std::min(budget.tokens_left(), 1)
            : budget.tokens_for_prompt(num_computed, num_pending, first);
    if (num_tokens == 0) {
      hold(request, budget.cause(), {}, now);
      continue;
    }
    const auto num_new_blocks = allocate_or_preempt(request, num_tokens, plan, now);
    if (!num_new_blocks) break;  // it was the last itself, and runs no more
    plan_tokens(request, num_tokens, *num_new_blocks, plan, now);
    row ? budget.take_rows(1) : budget.take_prompt(num_computed, num_tokens);
  }
  budget.take_rows(plan_retained_rows(budget.tokens_left(), plan));

  while (!waiting_.empty()) {
    Request& request = *waiting_.back();
    Admission admission;
    if (const auto cause = admission_obstacle(request, budget, admission)) {
      hold(request, *cause, admission, now);
      break;  // later requests do not overtake it
    }
    start(request, admission, plan, now);
    budget.take_prompt(admission.num_computed_tokens, admission.num_tokens);
  }

  // What was removed by dropping rows while planning.
  plan.removed_request_ids.insert(plan.removed_request_ids.end(), removed_request_ids_.begin(),
                                  removed_request_ids_.end());
  removed_request_ids_.clear();
  if (!plan.empty()) plan.step_id = step_in_flight_ = static_cast<StepId>(++counters_.num_steps);
  return {};
}

void Scheduler::form_batch(Instant now) {
  if (!running_.empty() || waiting_.empty()) return;
  batch_.form(std::ssize(waiting_), oldest_arrival(), now);
}

Instant Scheduler::oldest_arrival() const {
  const auto oldest = std::min_element(
      waiting_.begin(), waiting_.end(),
      [](const Request* a, const Request* b) { return a->arrival_index() < b->arrival_index(); });
  return (*oldest)->arrival();
}

// Those that run and know one token that is not computed are the step's rows, retained ones too.
StepBudget Scheduler::budget_of_step() const {
  StepWork rows;
  if (pace_.limited()) {
    for (const Request* request : running_) {
      if (request->num_pending_tokens() == 1) rows.add_row(request->num_computed_tokens());
    }
    retained_.add_to(rows);
  }
  return {config_.max_num_batched_tokens, config_.enable_chunked_prefill, pace_, rows};
}

// Blocks for a running request's next tokens, taken from rows that nobody wants and then from the
// last requests if need be; nullopt if it was itself the last and has been preempted.
std::optional<std::int32_t> Scheduler::allocate_or_preempt(const Request& request,
                                                           std::int32_t num_tokens,
                                                           SchedulerOutput& plan, Instant now) {
  while (true) {
    const auto num_new_blocks =
        kv_.allocate(request.id(), request.num_computed_tokens(), num_tokens, plan);
    if (num_new_blocks) return num_new_blocks;
    if (!retained_.empty()) {
      drop_retained_rows(retained_.size() - 1);
      continue;
    }
    Request& last = *running_.back();
    preempt(last, request, plan, now);
    if (&last == &request) return std::nullopt;
  }
}

// `for_request` needs its blocks; it may be the request itself, which then goes before the others
// would have to.
void Scheduler::preempt(Request& request, const Request& for_request, SchedulerOutput& plan,
                        Instant now) {
  kv_.free(request.id());
  request.preempt(now);
  if (&for_request == &request) {
    request.wait_for(others_running(request));
  } else {
    request.wait_for({.count = 1, .ids = {for_request.id()}});
  }
  running_.pop_back();
  insert_sorted(waiting_, request,
                [this](const Request* a, const Request* b) { return goes_before(*b, *a); });
  batch_.returned();
  plan.removed_request_ids.push_back(request.id());
  ++counters_.num_preemptions;
}

// It gets no tokens for this cause. When such a wait begins, writes down for whom: of those that
// run, the ones that are in the step so far; of the queue, those before it.
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
      for (const InFlight& each : in_flight_) blockers.add(each.request_id);
      break;
    case WaitCause::kForkParent:
      blockers.add(admission.fork_parent->id());
      break;
    case WaitCause::kMaxNumSeqs:
    case WaitCause::kNoFreeBlocks:
    case WaitCause::kBatch:
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

// Why the first waiting request cannot run yet, or how it would start. All its known tokens must
// fit into the free blocks, not only those of its first step: a sequence that is started without
// room for its prompt would soon be preempted, its work lost.
std::optional<WaitCause> Scheduler::admission_obstacle(const Request& request,
                                                       const StepBudget& budget,
                                                       Admission& admission) const {
  if (!batch_.admits()) return WaitCause::kBatch;
  if (std::ssize(running_) + static_cast<std::int64_t>(retained_.size()) >= config_.max_num_seqs) {
    return WaitCause::kMaxNumSeqs;
  }
  if (budget.full()) return budget.cause();
  std::int64_t num_blocks = ceil_div(request.num_tokens(), config_.block_size);
  admission.fork_parent = find_fork_parent(request);
  if (admission.fork_parent != nullptr) {
    if (admission.fork_parent->num_computed_tokens() < request.num_prompt_tokens()) {
      return WaitCause::kForkParent;
    }
    // It computes the last prompt token itself, for its logits, in a copy of that token's block.
    admission.num_computed_tokens = request.num_prompt_tokens() - 1;
    num_blocks = 1;
  } else {
    admission.match = match_prefix(request);
    admission.num_computed_tokens = admission.match.num_blocks * config_.block_size;
    num_blocks -= admission.match.num_blocks - admission.match.num_free_blocks;
  }
  admission.num_tokens = budget.tokens_for_prompt(
      admission.num_computed_tokens, request.num_tokens() - admission.num_computed_tokens,
      /*urgent=*/running_.empty());
  if (admission.num_tokens == 0) return budget.cause();
  if (num_blocks > kv_.pool().num_free_blocks()) return WaitCause::kNoFreeBlocks;
  return std::nullopt;
}

// A running request of the same prompt, for one that has not started yet; nullptr if there is none.
const Request* Scheduler::find_fork_parent(const Request& request) const {
  if (request.state() != RequestState::kWaiting || request.sample_index() == 0) return nullptr;
  const auto sibling = std::ranges::find(running_, request.group_id(), &Request::group_id);
  return sibling == running_.end() ? nullptr : *sibling;
}

// The last token is always computed, for its logits. Where the prompt's log probabilities are
// wanted, and where the prompt is pooled, so is every token that was not computed for this request
// before.
KvCacheManager::PrefixMatch Scheduler::match_prefix(const Request& request) const {
  const bool all = request.pooling() ||
                   (request.sampling_params()->prompt_logprobs && request.sample_index() == 0);
  const std::int32_t most = all ? request.max_computed_so_far() : request.num_tokens();
  return kv_.match_prefix(request.token_ids(), std::min(most, request.num_tokens() - 1));
}

void Scheduler::start(Request& request, const Admission& admission, SchedulerOutput& plan,
                      Instant now) {
  const RequestId id = request.id();
  if (admission.fork_parent != nullptr) {
    kv_.fork(admission.fork_parent->id(), id, request.num_prompt_tokens());
    ++counters_.num_forks;
  } else if (admission.match.num_blocks > 0) {
    kv_.share_prefix(id, request.token_ids(), admission.match);
  }
  if (config_.enable_prefix_caching && admission.fork_parent == nullptr) {
    counters_.prefix_cache_queries += request.num_tokens();
    counters_.prefix_cache_hits += admission.num_computed_tokens;
  }
  counters_.prompt_tokens_cached += request.start(admission.num_computed_tokens, now);

  const BlockTable* shared = kv_.find(id);
  const auto first_block = static_cast<std::int32_t>(plan.new_block_ids.size());
  if (shared != nullptr) {
    plan.new_block_ids.insert(plan.new_block_ids.end(), shared->block_ids().begin(),
                              shared->block_ids().end());
  }
  plan.new_requests.push_back({.request_id = id,
                               .token_ids = request.token_ids(),
                               .num_prompt_tokens = request.num_prompt_tokens(),
                               .sample_index = request.sample_index(),
                               .sampling_params = request.sampling_params(),
                               .first_block = first_block,
                               .num_blocks = shared == nullptr ? 0 : shared->size()});
  waiting_.pop_back();
  insert_sorted(running_, request,
                [this](const Request* a, const Request* b) { return goes_before(*a, *b); });
  batch_.joined();
  const auto num_new_blocks =
      kv_.allocate(id, admission.num_computed_tokens, admission.num_tokens, plan);
  plan_tokens(request, admission.num_tokens, *num_new_blocks, plan, now);
}

// Must follow the allocation, whose blocks are the last of the plan.
void Scheduler::plan_tokens(Request& request, std::int32_t num_tokens, std::int32_t num_new_blocks,
                            SchedulerOutput& plan, Instant now) {
  const std::int32_t num_computed_tokens = request.num_computed_tokens();
  request.schedule(num_tokens, now);
  const bool ends = request.num_pending_tokens() == 0;
  const RowUse last_row = request.pooling() ? RowUse::kState : RowUse::kTokens;
  const RowUse use = ends ? last_row : RowUse::kNothing;
  plan.scheduled.push_back(
      {.request_id = request.id(),
       .num_computed_tokens = num_computed_tokens,
       .num_scheduled_tokens = num_tokens,
       .use = use,
       .first_new_block = static_cast<std::int32_t>(plan.new_block_ids.size()) - num_new_blocks,
       .num_new_blocks = num_new_blocks});
  plan.total_num_scheduled_tokens += num_tokens;
  in_flight_.push_back({&request, request.id(), num_tokens, use});
}

// Returns how many there are. What they give is thrown away.
std::int32_t Scheduler::plan_retained_rows(std::int32_t most, SchedulerOutput& plan) {
  const std::int32_t num_planned = retained_.plan(most, kv_, plan);
  for (const ScheduledRequest& row :
       std::span(plan.scheduled).last(static_cast<std::size_t>(num_planned))) {
    in_flight_.push_back({nullptr, row.request_id, row.num_scheduled_tokens, row.use});
  }
  counters_.tokens_discarded += num_planned;
  return num_planned;
}

// Lets go of a finished request: out of its queue, its blocks free, the executor to be told; unless
// its row stays in the batch.
std::unique_ptr<const Request> Scheduler::take(Request& request, bool retain_row) {
  const bool runs = std::erase(running_, &request) > 0;
  if (!runs) std::erase(waiting_, &request);
  if (runs && retain_row) {
    retained_.add(request.id(), request.num_tokens());
  } else {
    if (runs) removed_request_ids_.push_back(request.id());
    kv_.free(request.id());
  }
  return std::move(requests_.extract(request.id()).mapped());
}

bool Scheduler::has_work() const {
  return !running_.empty() || !waiting_.empty() || !removed_request_ids_.empty();
}

std::optional<Instant> Scheduler::next_deadline() const {
  if (step_in_flight_ != 0 || !has_work()) return std::nullopt;
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
  stats.num_waiting = std::ssize(waiting_);
  stats.num_running = std::ssize(running_);
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
