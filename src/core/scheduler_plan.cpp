// What the next step computes: for those that run, in their order, and for those that may start.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "core/scheduler.h"

namespace quire {

Status Scheduler::schedule(Instant now, SchedulerOutput& plan) {
  if (steps_.full()) {
    return Status::internal(
        fmt::format("schedule() was called while {} steps are in flight", steps_.size()));
  }
  plan.clear();
  kv_.set_time(now);
  batch_.begin_step(counters_.num_steps, std::ssize(waiting_), std::ssize(running_));
  plan.truncated_tables.swap(truncated_tables_);
  plan.adopted_blocks.swap(adopted_blocks_);
  plan.removed_request_ids.swap(removed_request_ids_);
  give_way(plan, now);
  StepBudget budget = budget_of_step();
  form_batch(now);
  plan_running(budget, plan, now);
  budget.take_rows(plan_retained_rows(budget.tokens_left(), plan));
  plan_waiting(budget, plan, now);

  // What was removed by dropping rows while planning.
  plan.removed_request_ids.insert(plan.removed_request_ids.end(), removed_request_ids_.begin(),
                                  removed_request_ids_.end());
  removed_request_ids_.clear();
  kv_.take_stores(plan);
  counters_.blocks_offloaded += std::ssize(plan.block_stores);
  waits_for_fetch_ = plan.empty() && !fetches_.empty();
  if (plan.empty()) return {};
  plan.step_id = static_cast<StepId>(++counters_.num_steps);
  steps_.launch(plan.step_id, now);
  return {};
}

// Those that run, in their order; preemption begins at the end.
void Scheduler::plan_running(StepBudget& budget, SchedulerOutput& plan, Instant now) {
  find_needs();
  for (std::size_t next = 0; next < running_.size();) {
    const bool first = next == 0;
    Request& request = *running_[next++];
    const std::int32_t num_before = request.num_scheduled_tokens();
    const std::int32_t num_pending = request.num_pending_tokens();
    if (num_pending == 0) continue;  // steps in flight compute all that there is
    const bool row = num_pending == 1;
    const auto num_rows = static_cast<std::int32_t>(request.row_ids().size());
    const std::int32_t num_tokens =
        row ? (budget.tokens_left() >= num_rows ? 1 : 0) : chunk_that_fits(request, budget, first);
    if (num_tokens == 0) {
      hold(request, budget.cause(), {}, now);
      continue;
    }
    drafts_.clear();
    if (row) plan_drafts(request, budget, next);
    if (request.is_beam_search()) part_beams(request);
    // The request was the last one itself, and no longer runs.
    if (!make_room(request, num_tokens + num_on_first_path(drafts_.view()), plan, now)) break;
    row ? budget.take_rows(num_rows + drafts_.view().size())
        : budget.take_prompt(num_before, num_rows * num_tokens);
    plan_tokens(request, num_tokens, plan, now);
  }
}

// Of several tokens that a request has to compute. What beams compute again, each for itself, is
// cut where prompts are not, too: the beams of a step may be too many for it.
std::int32_t Scheduler::chunk_that_fits(const Request& request, const StepBudget& budget,
                                        bool urgent) {
  const auto num_rows = static_cast<std::int32_t>(request.row_ids().size());
  const std::int32_t num_before = request.num_scheduled_tokens();
  const std::int32_t num_pending = request.num_pending_in_rows();
  if (num_rows == 1) return budget.tokens_for_prompt(num_before, num_pending, urgent);
  const std::int32_t most = std::min(num_pending, budget.tokens_left() / num_rows);
  const std::int32_t fits =
      budget.tokens_for_prompt(num_before, most * num_rows, urgent) / num_rows;
  return urgent ? std::max(fits, std::min(most, 1)) : fits;
}

void Scheduler::plan_waiting(StepBudget& budget, SchedulerOutput& plan, Instant now) {
  while (!waiting_.empty()) {
    Request& request = next_waiting();
    Admission admission;
    if (const auto cause = admission_obstacle(request, budget, admission)) {
      hold(request, *cause, admission, now);
      if (*cause == WaitCause::kKvFetch) {
        begin_fetch(request, admission, plan);
        continue;
      }
      break;  // later requests do not overtake it
    }
    start(request, admission, plan, now);
    budget.take_prompt(admission.num_computed_tokens, admission.num_tokens);
  }
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

// Those that run and know one token that is not computed are the step's rows, with what is guessed
// after it; retained ones too.
StepBudget Scheduler::budget_of_step() const {
  StepWork rows;
  if (pace_.limited()) {
    for (const Request* request : running_) {
      if (request->num_pending_tokens() != 1) continue;
      const std::int32_t num_positions = 1 + num_drafts_wanted(*request);
      for (std::int32_t i = 0; i < num_positions; ++i) {
        for (std::size_t row = 0; row < request->row_ids().size(); ++row) {
          rows.add_row(request->num_scheduled_tokens() + i);
        }
      }
    }
    retained_.add_to(rows);
  }
  return {config_.max_num_batched_tokens, config_.enable_chunked_prefill, pace_, rows};
}

// What keeps a request from joining those that run, whatever room there is. The pace applies to
// requests that would delay them: not to one that has run or begun to fetch its blocks, nor to an
// output of a prompt that is computed; and not where nothing runs.
std::optional<WaitCause> Scheduler::batch_obstacle(const Request& request) const {
  if (!batch_.admits()) return WaitCause::kBatch;
  const bool passes = batch_.open() || running_.empty() || request.fetched() ||
                      request.state() == RequestState::kPreempted ||
                      find_fork_parent(request) != nullptr;
  return passes ? std::nullopt : std::optional(WaitCause::kAdmissionPace);
}

// Why the first waiting request cannot run yet, or how it would start. All its known tokens must
// fit into the free blocks, not only those of its first step: a sequence that is started without
// room for its prompt would soon be preempted, its work lost.
std::optional<WaitCause> Scheduler::admission_obstacle(const Request& request,
                                                       const StepBudget& budget,
                                                       Admission& admission) const {
  if (const auto cause = batch_obstacle(request)) return cause;
  if (num_rows_running() + num_rows_fetching() + request.max_rows() > config_.max_num_seqs) {
    return WaitCause::kMaxNumSeqs;
  }
  if (budget.full()) return budget.cause();
  std::int64_t num_pages = pages_to_start(request);
  admission.fork_parent = find_fork_parent(request);
  if (admission.fork_parent != nullptr) {
    if (admission.fork_parent->num_computed_tokens() < request.num_prompt_tokens()) {
      return WaitCause::kForkParent;
    }
    // It computes the last prompt token itself, for its logits, in a copy of that token's block.
    admission.num_computed_tokens = request.num_prompt_tokens() - 1;
    num_pages = kv_.pages_per_block();
  } else {
    admission.match = match_prefix(request);
    const PrefixInFlight in_flight = prefix_in_flight(request, admission.match.num_tokens);
    if (request.state() == RequestState::kWaiting && worth_waiting_for(in_flight.num_tokens)) {
      admission.computes_prefix = in_flight.computed_by;
      return WaitCause::kPrefixInFlight;
    }
    admission.tier = worth_fetching(request, admission.match);
    const bool has_room =
        num_pages - admission.match.num_used_pages <= kv_.pool().num_free_blocks();
    if (admission.tier.num_blocks > 0 &&
        (has_room || fetch_that_brings(admission.tier.first) != nullptr)) {
      return WaitCause::kKvFetch;
    }
    // Nothing has to wait for the room that a copy needs.
    if (num_pages - admission.match.num_used_pages + admission.match.num_copied_pages >
        kv_.pool().num_free_blocks()) {
      admission.match =
          kv_.match_prefix(request.token_ids(), admission.match.num_blocks * config_.block_size,
                           request.cache_scope());
    }
    admission.num_computed_tokens = admission.match.num_tokens;
    num_pages -= admission.match.num_used_pages;
  }
  admission.num_tokens = budget.tokens_for_prompt(
      admission.num_computed_tokens, request.num_common_tokens() - admission.num_computed_tokens,
      /*urgent=*/running_.empty());
  if (admission.num_tokens == 0) return budget.cause();
  if (num_pages > kv_.pool().num_free_blocks()) return WaitCause::kNoFreeBlocks;
  return std::nullopt;
}

// Pages for all its known tokens, with room for the placeholders that a preempted request has lost:
// or it would come back at once, and have to leave again.
std::int64_t Scheduler::pages_to_start(const Request& request) const {
  const std::int64_t num_pages =
      kv_.max_pages(std::min(request.num_tokens() + config_.max_steps_in_flight - 1,
                             request.max_computed_tokens()),
                    config_.max_tokens_in_flight());
  return num_pages + (request.is_beam_search() ? branch_pages(request) : 0);
}

// A running request of the same prompt, for one that has not started yet; nullptr if there is none.
// One that has gone so far on that it has given back what the prompt's end reads is of no use.
const Request* Scheduler::find_fork_parent(const Request& request) const {
  if (request.state() != RequestState::kWaiting || request.sample_index() == 0) return nullptr;
  const std::int32_t num_tokens = request.num_prompt_tokens();
  const auto sibling = std::ranges::find_if(running_, [&](const Request* other) {
    return other->group_id() == request.group_id() &&
           (other->num_computed_tokens() < num_tokens || kv_.can_fork(other->id(), num_tokens));
  });
  return sibling == running_.end() ? nullptr : *sibling;
}

void Scheduler::start(Request& request, const Admission& admission, SchedulerOutput& plan,
                      Instant now) {
  const RequestId id = request.id();
  if (admission.fork_parent != nullptr) {
    kv_.fork(admission.fork_parent->id(), id, request.num_prompt_tokens());
    ++counters_.num_forks;
  } else if (admission.match.num_tokens > 0) {
    kv_.share_prefix(id, admission.match);
  }
  if (config_.enable_prefix_caching && admission.fork_parent == nullptr) {
    counters_.prefix_cache_queries += request.num_tokens();
    counters_.prefix_cache_hits += admission.num_computed_tokens;
    count_tier(request, admission.num_computed_tokens);
  }
  const bool first_time = !request.first_scheduled();
  if (first_time && admission.fork_parent == nullptr) {
    PrefixMiss miss = explain_miss(request, admission);
    miss.num_pinned = pinned_.count_hits(id, kv_);
    request.explain(miss);
  }
  counters_.prompt_tokens_cached += request.start(admission.num_computed_tokens, now);
  if (request.share() != nullptr) ++request.share()->num_running;
  if (first_time && request.share() != nullptr) {
    request.share()->served += FairShares::kPromptWeight * request.num_uncomputed_prompt_tokens();
  }

  if (request.is_beam_search()) {
    request.beams()->rows.place_first();
    request.beams()->rows.tell_all_placed();
  }
  announce(request, 0, plan);
  leave_queue(request);
  const auto earlier = [this](const Request* a, const Request* b) { return goes_before(*a, *b); };
  running_.insert(std::lower_bound(running_.begin(), running_.end(), &request, earlier), &request);
  batch_.joined(first_time);
  plan_tokens(request, admission.num_tokens, plan, now);
}

// One of its rows is new to the executor, with the blocks that it has.
void Scheduler::announce(const Request& request, std::size_t row, SchedulerOutput& plan) {
  const RequestId id = request.row_ids()[row];
  const BlockTable* shared = kv_.find(id);
  const auto first_block = static_cast<std::int32_t>(plan.new_block_ids.size());
  if (shared != nullptr) {
    plan.new_block_ids.insert(plan.new_block_ids.end(), shared->block_ids().begin(),
                              shared->block_ids().end());
  }
  const auto first_token = static_cast<std::int32_t>(plan.new_token_ids.size());
  const std::vector<TokenId>& token_ids = request.row_token_ids(row);
  plan.new_token_ids.insert(plan.new_token_ids.end(), token_ids.begin(), token_ids.end());
  plan.new_requests.push_back(
      {.request_id = id,
       .first_token = first_token,
       .num_tokens = request.num_tokens(),
       .num_prompt_tokens = request.num_prompt_tokens(),
       .sample_index = request.sample_index(),
       .pooling = request.pooling(),
       .sampling_params = request.sampling_params(),
       .first_block = first_block,
       .num_blocks = static_cast<std::int32_t>(plan.new_block_ids.size()) - first_block});
}

// There are blocks for them. Those with drafts have one row.
void Scheduler::plan_tokens(Request& request, std::int32_t num_tokens, SchedulerOutput& plan,
                            Instant now) {
  const std::int32_t num_computed_tokens = request.num_scheduled_tokens();
  const auto first_draft = static_cast<std::int32_t>(plan.draft_token_ids.size());
  const DraftTreeView drafts = drafts_.view();
  const std::int32_t num_drafts = drafts.size();
  const std::int32_t num_branched = num_drafts - num_on_first_path(drafts);
  plan.draft_token_ids.insert(plan.draft_token_ids.end(), drafts_.tokens.begin(),
                              drafts_.tokens.end());
  plan.draft_parents.insert(plan.draft_parents.end(), drafts_.parents.begin(),
                            drafts_.parents.end());
  if (request.is_beam_search()) announce_beams(request, plan);
  const std::span<const RequestId> row_ids = request.row_ids();
  const RowUse use = request.schedule(num_tokens, drafts, now);
  for (const RequestId id : row_ids) {
    const std::int32_t num_new_blocks =
        *kv_.allocate(id, num_computed_tokens, num_tokens + num_drafts - num_branched, plan);
    const auto num_block_ids = static_cast<std::int32_t>(plan.new_block_ids.size());
    plan.scheduled.push_back(
        {.request_id = id,
         .num_computed_tokens = num_computed_tokens,
         .num_scheduled_tokens = num_tokens + num_drafts,
         .use = use,
         .first_draft = num_drafts > 0 ? first_draft : 0,
         .num_drafts = num_drafts,
         .num_branched = num_branched,
         .first_new_block = num_block_ids - num_new_blocks,
         .num_new_blocks = num_new_blocks,
         .num_branch_blocks = plan_branches(request, num_computed_tokens, plan)});
    plan.total_num_scheduled_tokens += num_tokens + num_drafts;
    steps_.next().shares.push_back({.request = id == row_ids[0] ? &request : nullptr,
                                    .request_id = id,
                                    .num_tokens = num_tokens + num_drafts,
                                    .num_drafts = num_drafts,
                                    .num_branched = num_branched,
                                    .num_rows = static_cast<std::int32_t>(row_ids.size()),
                                    .use = use});
  }
  counters_.num_drafted_rows += num_drafts > 0 ? 1 : 0;
  counters_.draft_tokens += num_drafts;
  drafts_.clear();
}

// Returns how many there are. What they give is thrown away.
std::int32_t Scheduler::plan_retained_rows(std::int32_t most, SchedulerOutput& plan) {
  const std::int32_t num_planned = retained_.plan(most, kv_, plan);
  for (const ScheduledRequest& row :
       std::span(plan.scheduled).last(static_cast<std::size_t>(num_planned))) {
    steps_.next().shares.push_back(
        {.request_id = row.request_id, .num_tokens = row.num_scheduled_tokens, .use = row.use});
  }
  counters_.tokens_discarded += num_planned;
  return num_planned;
}

}  // namespace quire
