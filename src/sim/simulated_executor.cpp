#include "sim/simulated_executor.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/random.h"

namespace quire {
namespace {

template <typename... Args>
Status broken(fmt::format_string<Args...> format, Args&&... args) {
  return Status::internal(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace

std::uint64_t extend_history(std::uint64_t history, TokenId token_id) {
  return random_bits(history, static_cast<std::uint64_t>(token_id));
}

TokenId simulated_token(std::uint64_t history, std::int32_t vocab_size) {
  return static_cast<TokenId>(mix64(history) % static_cast<std::uint64_t>(vocab_size));
}

SimulatedExecutor::SimulatedExecutor(const SimulatedExecutorConfig& config, VirtualClock& clock)
    : config_(config),
      clock_(clock),
      slots_(static_cast<std::size_t>(config.num_blocks) *
             static_cast<std::size_t>(config.block_size)),
      num_holders_(static_cast<std::size_t>(config.num_blocks)) {}

Status SimulatedExecutor::execute(const SchedulerOutput& plan, ModelRunnerOutput& result) {
  if (plan.step_id <= last_step_) {
    return broken("step {} comes after step {}", plan.step_id, last_step_);
  }
  last_step_ = plan.step_id;
  QUIRE_RETURN_IF_ERROR(forget(plan));
  for (const NewRequestData& data : plan.new_requests) QUIRE_RETURN_IF_ERROR(learn(data));
  QUIRE_RETURN_IF_ERROR(copy_blocks(plan));

  // All tables first: a block shared by two of this step's requests must not be written.
  std::int64_t num_scheduled_tokens = 0;
  for (const ScheduledRequest& scheduled : plan.scheduled) {
    const auto found = requests_.find(scheduled.request_id);
    if (found == requests_.end()) {
      return broken("request {} is scheduled, but unknown", scheduled.request_id);
    }
    RequestCopy& request = found->second;
    if (request.last_step == plan.step_id) {
      return broken("request {} is scheduled twice in step {}", scheduled.request_id, plan.step_id);
    }
    request.last_step = plan.step_id;
    for (const BlockId block_id : plan.new_blocks_of(scheduled)) {
      if (!valid(block_id)) {
        return broken("request {} is given block {}, which does not exist", scheduled.request_id,
                      block_id);
      }
      request.block_ids.push_back(block_id);
      ++num_holders_[static_cast<std::size_t>(block_id)];
    }
    num_scheduled_tokens += scheduled.num_scheduled_tokens;
  }
  if (num_scheduled_tokens != plan.total_num_scheduled_tokens) {
    return broken("step {} announces {} tokens and schedules {}", plan.step_id,
                  plan.total_num_scheduled_tokens, num_scheduled_tokens);
  }

  result.clear();
  result.step_id = plan.step_id;
  for (const ScheduledRequest& scheduled : plan.scheduled) {
    RequestCopy& request = requests_.at(scheduled.request_id);
    QUIRE_RETURN_IF_ERROR(check_scheduled(scheduled, request));
    QUIRE_RETURN_IF_ERROR(compute(scheduled, request));
    if (!scheduled.samples) continue;
    const TokenId token = simulated_token(request.history.back(), config_.vocab_size);
    request.history.push_back(extend_history(request.history.back(), token));
    result.sampled.push_back({.request_id = scheduled.request_id, .token_id = token});
  }
  clock_.advance(config_.step_time + config_.token_time * num_scheduled_tokens);
  return {};
}

Status SimulatedExecutor::forget(const SchedulerOutput& plan) {
  for (const RequestId request_id : plan.removed_request_ids) {
    const auto found = requests_.find(request_id);
    if (found == requests_.end()) {
      return broken("request {} is removed, but unknown", request_id);
    }
    for (const BlockId block_id : found->second.block_ids) {
      --num_holders_[static_cast<std::size_t>(block_id)];
    }
    requests_.erase(found);
  }
  return {};
}

Status SimulatedExecutor::learn(const NewRequestData& data) {
  if (data.token_ids.empty() || data.num_prompt_tokens < 1 ||
      data.num_prompt_tokens > std::ssize(data.token_ids)) {
    return broken("new request {} has {} tokens, {} of them prompt", data.request_id,
                  data.token_ids.size(), data.num_prompt_tokens);
  }
  if (data.sampling_params == nullptr) {
    return broken("new request {} has no sampling parameters", data.request_id);
  }
  const auto [entry, is_new] = requests_.try_emplace(data.request_id);
  if (!is_new) return broken("request {} is new, but known", data.request_id);
  std::uint64_t history = 0;
  for (const TokenId token_id : data.token_ids) {
    history = extend_history(history, token_id);
    entry->second.history.push_back(history);
  }
  return {};
}

// A replaced block must be a copy of what was there. A copy may also be without replacement: of a
// block that a new request, forked from another, brings in its first table.
Status SimulatedExecutor::copy_blocks(const SchedulerOutput& plan) {
  for (const BlockReplacement& replaced : plan.replaced_blocks) {
    const auto found = requests_.find(replaced.request_id);
    if (found == requests_.end()) {
      return broken("request {} gets another block, but is unknown", replaced.request_id);
    }
    std::vector<BlockId>& block_ids = found->second.block_ids;
    const auto index = static_cast<std::size_t>(replaced.index);
    const auto is_made_here = [&](const BlockCopy& copy) {
      return copy.source == block_ids[index] && copy.destination == replaced.block_id;
    };
    if (replaced.index < 0 || index >= block_ids.size() || !valid(replaced.block_id) ||
        std::none_of(plan.block_copies.begin(), plan.block_copies.end(), is_made_here)) {
      return broken("request {}: block {} at {} is no copy of what was there", replaced.request_id,
                    replaced.block_id, replaced.index);
    }
    --num_holders_[static_cast<std::size_t>(block_ids[index])];
    ++num_holders_[static_cast<std::size_t>(replaced.block_id)];
    block_ids[index] = replaced.block_id;
  }
  for (const auto [source, destination] : plan.block_copies) {
    if (!valid(source) || !valid(destination)) {
      return broken("block {} is copied to {}, and one of them does not exist", source,
                    destination);
    }
    std::copy_n(slots_.begin() + std::int64_t{source} * config_.block_size, config_.block_size,
                slots_.begin() + std::int64_t{destination} * config_.block_size);
  }
  return {};
}

Status SimulatedExecutor::check_scheduled(const ScheduledRequest& scheduled,
                                          const RequestCopy& request) const {
  const std::int64_t num_tokens = std::ssize(request.history);
  const std::int64_t end =
      std::int64_t{scheduled.num_computed_tokens} + scheduled.num_scheduled_tokens;
  if (scheduled.num_scheduled_tokens <= 0 || scheduled.num_computed_tokens < 0 ||
      end > num_tokens) {
    return broken("request {}: tokens [{}, {}) of {} are scheduled", scheduled.request_id,
                  scheduled.num_computed_tokens, end, num_tokens);
  }
  if (request.computed_before && scheduled.num_computed_tokens != request.num_computed_tokens) {
    return broken("request {}: {} tokens are computed, the plan says {}", scheduled.request_id,
                  request.num_computed_tokens, scheduled.num_computed_tokens);
  }
  if (scheduled.samples != (end == num_tokens)) {
    return broken("request {}: {} of {} tokens will be computed, but samples is {}",
                  scheduled.request_id, end, num_tokens, scheduled.samples);
  }
  if (std::ssize(request.block_ids) * config_.block_size < end) {
    return broken("request {}: {} blocks do not hold {} tokens", scheduled.request_id,
                  request.block_ids.size(), end);
  }
  return {};
}

// Writes the scheduled slots, having read all earlier ones as attention would.
Status SimulatedExecutor::compute(const ScheduledRequest& scheduled, RequestCopy& request) {
  const auto begin = static_cast<std::size_t>(scheduled.num_computed_tokens);
  const auto end = begin + static_cast<std::size_t>(scheduled.num_scheduled_tokens);
  const auto block_size = static_cast<std::size_t>(config_.block_size);
  for (std::size_t i = 0; i < begin; ++i) {
    if (slot(request, i) != request.history[i]) {
      return broken("request {}: block {} does not hold the keys and values of token {}",
                    scheduled.request_id, request.block_ids[i / block_size], i);
    }
  }
  for (std::size_t i = begin; i < end; ++i) {
    const BlockId block_id = request.block_ids[i / block_size];
    if (num_holders_[static_cast<std::size_t>(block_id)] != 1) {
      return broken("request {} writes token {} into block {}, which {} tables hold",
                    scheduled.request_id, i, block_id,
                    num_holders_[static_cast<std::size_t>(block_id)]);
    }
    slot(request, i) = request.history[i];
  }
  request.num_computed_tokens = static_cast<std::int32_t>(end);
  request.computed_before = true;
  return {};
}

std::uint64_t& SimulatedExecutor::slot(const RequestCopy& request, std::size_t position) {
  const auto block_size = static_cast<std::size_t>(config_.block_size);
  const auto block = static_cast<std::size_t>(request.block_ids[position / block_size]);
  return slots_[block * block_size + position % block_size];
}

const std::vector<BlockId>* SimulatedExecutor::find_block_ids(RequestId request_id) const {
  const auto found = requests_.find(request_id);
  return found == requests_.end() ? nullptr : &found->second.block_ids;
}

}  // namespace quire
