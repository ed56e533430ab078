#include "core/scheduler.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include <fmt/format.h>

namespace quire {
namespace {

// Both queues are in order of arrival, so that a request is found by bisection.
template <typename Queue>
bool erase_request(Queue& queue, const Request& request) {
  const auto found = std::lower_bound(
      queue.begin(), queue.end(), request.arrival_index(),
      [](const Request* each, std::uint64_t index) { return each->arrival_index() < index; });
  if (found == queue.end() || *found != &request) return false;
  queue.erase(found);
  return true;
}

}  // namespace

Scheduler::Scheduler(SchedulerConfig config)
    : config_(std::move(config)), kv_(config_.block_size, config_.num_blocks) {
  assert(config_.validate().ok());
}

Status Scheduler::add(AddRequest request, Instant now) {
  if (const auto refusal = admission_refusal(request)) {
    ++counters_.num_rejected[static_cast<std::size_t>(refusal->cause)];
    return refusal->status;
  }
  const RequestId id = request.request_id;
  auto added = std::make_unique<Request>(std::move(request), config_.eos_token_ids,
                                         config_.max_model_len, num_arrivals_++, now);
  added->wait(WaitCause::kQueueOrder, now);
  ++counters_.num_added;
  counters_.prompt_tokens_added += added->num_prompt_tokens();
  waiting_.push_back(added.get());
  requests_.emplace(id, std::move(added));
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
  return take(request);
}

Status Scheduler::schedule(Instant now, SchedulerOutput& plan) {
  if (step_in_flight_ != 0) {
    return Status::internal(
        fmt::format("schedule() was called while step {} is in flight", step_in_flight_));
  }
  plan.clear();
  plan.removed_request_ids.swap(removed_request_ids_);
  std::int32_t budget = config_.max_num_batched_tokens;

  for (std::size_t next = 0; next < running_.size();) {  // preemption takes from the end
    Request& request = *running_[next++];
    const std::int32_t num_tokens = tokens_within(request, budget);
    if (num_tokens == 0) {
      request.wait(WaitCause::kTokenBudget, now);
      continue;
    }
    auto allocation = allocate_or_preempt(request, num_tokens, plan, now);
    if (!allocation) break;  // it was the latest arrival itself, and runs no more
    plan_tokens(request, num_tokens, *std::move(allocation), plan, now);
    budget -= num_tokens;
  }

  while (!waiting_.empty()) {
    Request& request = *waiting_.front();
    if (const auto cause = admission_obstacle(request, budget)) {
      request.wait(*cause, now);
      break;  // later requests do not overtake it
    }
    const std::int32_t num_tokens = tokens_within(request, budget);
    waiting_.pop_front();
    running_.push_back(&request);
    request.start(now);
    plan.new_requests.push_back({.request_id = request.id(),
                                 .token_ids = request.token_ids(),
                                 .num_prompt_tokens = request.num_prompt_tokens(),
                                 .sampling_params = request.sampling_params()});
    plan_tokens(request, num_tokens, *kv_.allocate(request.id(), 0, num_tokens), plan, now);
    budget -= num_tokens;
  }

  if (!plan.empty()) plan.step_id = step_in_flight_ = static_cast<StepId>(++counters_.num_steps);
  return {};
}

// How many of its pending tokens a request computes in a step with `budget` tokens left.
std::int32_t Scheduler::tokens_within(const Request& request, std::int32_t budget) const {
  const std::int32_t pending = request.num_pending_tokens();
  return pending <= budget ? pending : config_.enable_chunked_prefill ? budget : 0;
}

// Blocks for a running request's next tokens, taken from the latest arrivals if need be; nullopt if
// it was itself the latest and has been preempted.
std::optional<KvAllocation> Scheduler::allocate_or_preempt(const Request& request,
                                                           std::int32_t num_tokens,
                                                           SchedulerOutput& plan, Instant now) {
  while (true) {
    auto allocation = kv_.allocate(request.id(), request.num_computed_tokens(), num_tokens);
    if (allocation) return allocation;
    Request& latest = *running_.back();
    preempt(latest, plan, now);
    if (&latest == &request) return std::nullopt;
  }
}

void Scheduler::preempt(Request& request, SchedulerOutput& plan, Instant now) {
  kv_.free(request.id());
  request.preempt(now);
  running_.pop_back();
  waiting_.push_front(&request);
  plan.removed_request_ids.push_back(request.id());
  ++counters_.num_preemptions;
}

// Why the first waiting request cannot run yet. All its known tokens must fit into the free blocks,
// not only those of its first step: a sequence that is started without room for its prompt would
// soon be preempted, its work lost. (A preempted request therefore never returns in the same step:
// it held at least as many blocks as were needed.)
std::optional<WaitCause> Scheduler::admission_obstacle(const Request& request,
                                                       std::int32_t budget) const {
  if (std::ssize(running_) == config_.max_num_seqs) return WaitCause::kMaxNumSeqs;
  if (tokens_within(request, budget) == 0) return WaitCause::kTokenBudget;
  if (kv_.blocks_needed(request.id(), 0, request.num_tokens()) > kv_.pool().num_free_blocks()) {
    return WaitCause::kNoFreeBlocks;
  }
  return std::nullopt;
}

void Scheduler::plan_tokens(Request& request, std::int32_t num_tokens, KvAllocation allocation,
                            SchedulerOutput& plan, Instant now) {
  const std::int32_t num_computed_tokens = request.num_computed_tokens();
  request.schedule(num_tokens, now);
  const bool samples = request.num_pending_tokens() == 0;
  plan.replaced_blocks.insert(plan.replaced_blocks.end(), allocation.replaced_blocks.begin(),
                              allocation.replaced_blocks.end());
  plan.block_copies.insert(plan.block_copies.end(), allocation.block_copies.begin(),
                           allocation.block_copies.end());
  plan.scheduled.push_back(
      {.request_id = request.id(),
       .num_computed_tokens = num_computed_tokens,
       .num_scheduled_tokens = num_tokens,
       .samples = samples,
       .first_new_block = static_cast<std::int32_t>(plan.new_block_ids.size()),
       .num_new_blocks = static_cast<std::int32_t>(allocation.new_block_ids.size())});
  plan.new_block_ids.insert(plan.new_block_ids.end(), allocation.new_block_ids.begin(),
                            allocation.new_block_ids.end());
  plan.total_num_scheduled_tokens += num_tokens;
  in_flight_.push_back({&request, request.id(), num_tokens, samples});
}

Status Scheduler::update(const ModelRunnerOutput& output, Instant now,
                         std::vector<RequestStepOutput>& outputs) {
  QUIRE_RETURN_IF_ERROR(check_result(output));
  outputs.clear();
  auto sampled = output.sampled.begin();
  step_in_flight_ = 0;
  for (const InFlight& each : std::exchange(in_flight_, {})) {
    const SampledToken* token = each.samples ? &*sampled++ : nullptr;
    if (each.request == nullptr) continue;
    Request& request = *each.request;
    const Request::Computed computed = request.complete(each.num_scheduled_tokens);
    counters_.prompt_tokens_computed += computed.num_first_prompt;
    counters_.output_tokens_computed += computed.num_first_output;
    counters_.tokens_recomputed += computed.num_again;
    if (token == nullptr) continue;
    request.append_output(token->token_id, now);
    ++counters_.output_tokens_sampled;
    outputs.push_back({.request_id = request.id(),
                       .token_id = token->token_id,
                       .logprob = token->logprob,
                       .sampled_index = static_cast<std::int32_t>(token - output.sampled.data()),
                       .finished = nullptr});
    if (!request.finished()) continue;
    ++counters_.num_finished;
    outputs.back().finished = take(request);
  }
  return {};
}

Status Scheduler::check_result(const ModelRunnerOutput& output) const {
  if (step_in_flight_ == 0 || output.step_id != step_in_flight_) {
    return Status::internal(fmt::format("got the result of step {}, but the step in flight is {}",
                                        output.step_id, step_in_flight_));
  }
  std::size_t num_expected = 0;
  for (const InFlight& each : in_flight_) {
    if (!each.samples) continue;
    if (num_expected == output.sampled.size()) {
      return Status::internal(fmt::format("step {} sampled {} tokens: request {} has none",
                                          output.step_id, num_expected, each.request_id));
    }
    const SampledToken& token = output.sampled[num_expected++];
    if (token.request_id != each.request_id || token.token_id < 0) {
      return Status::internal(
          fmt::format("step {} sampled token {} for request {} where request {} was to come",
                      output.step_id, token.token_id, token.request_id, each.request_id));
    }
  }
  if (num_expected != output.sampled.size()) {
    return Status::internal(fmt::format("step {} sampled {} tokens, {} were planned",
                                        output.step_id, output.sampled.size(), num_expected));
  }
  return {};
}

// Lets go of a finished request: out of its queue, its blocks free, the executor to be told.
std::unique_ptr<const Request> Scheduler::take(Request& request) {
  if (erase_request(running_, request)) {
    removed_request_ids_.push_back(request.id());
  } else {
    erase_request(waiting_, request);
  }
  kv_.free(request.id());
  return std::move(requests_.extract(request.id()).mapped());
}

bool Scheduler::has_work() const {
  return !running_.empty() || !waiting_.empty() || !removed_request_ids_.empty();
}

std::optional<Instant> Scheduler::next_deadline() const {
  if (step_in_flight_ != 0 || !has_work()) return std::nullopt;
  return Instant::zero();
}

const Request* Scheduler::find(RequestId request_id) const {
  const auto found = requests_.find(request_id);
  return found == requests_.end() ? nullptr : found->second.get();
}

SchedulerStats Scheduler::stats() const {
  SchedulerStats stats = counters_;
  stats.num_waiting = std::ssize(waiting_);
  stats.num_running = std::ssize(running_);
  stats.blocks_total = kv_.pool().num_blocks();
  stats.blocks_free = kv_.pool().num_free_blocks();
  stats.blocks_used = kv_.pool().num_used_blocks();
  stats.blocks_leaked = kv_.blocks_leaked();
  stats.prompt_tokens_pending =
      stats.prompt_tokens_added - stats.prompt_tokens_computed - stats.prompt_tokens_dropped;
  return stats;
}

}  // namespace quire
