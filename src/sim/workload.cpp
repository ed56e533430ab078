#include "sim/workload.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

namespace quire {
namespace {

Duration exponential(RandomStream& random, Duration mean) {
  return Duration(static_cast<Duration::rep>(-std::log1p(-random.uniform()) *
                                             static_cast<double>(mean.count())));
}

std::vector<TokenId> random_tokens(RandomStream& random, std::int64_t count, std::int32_t vocab) {
  std::vector<TokenId> token_ids(static_cast<std::size_t>(count));
  for (TokenId& id : token_ids) id = static_cast<TokenId>(random.between(0, vocab - 1));
  return token_ids;
}

std::vector<TokenId> random_prompt(RandomStream& random, const WorkloadConfig& config,
                                   const std::vector<WorkloadRequest>& earlier) {
  std::vector<TokenId> prompt =
      random_tokens(random, random.between(config.prompt_tokens.low, config.prompt_tokens.high),
                    config.vocab_size);
  if (earlier.empty() || !random.chance(config.shared_prefix_probability)) return prompt;
  const auto which = static_cast<std::size_t>(random.between(0, std::ssize(earlier) - 1));
  const std::vector<TokenId>& other = earlier[which].request.prompt_token_ids;
  const bool whole = random.chance(0.5);
  const std::int64_t num_shared = whole ? std::ssize(other) : random.between(0, std::ssize(other));
  if (std::ssize(prompt) < num_shared) prompt.resize(static_cast<std::size_t>(num_shared));
  std::copy_n(other.begin(), num_shared, prompt.begin());
  return prompt;
}

// In place of drawn tokens.
void search(RandomStream& random, const WorkloadConfig& config, SamplingParams& params) {
  params.beam_width = random.between(1, std::min<std::int64_t>(5, config.vocab_size));
  params.n = random.between(1, params.beam_width);
  params.length_penalty = static_cast<double>(random.between(-1, 4)) / 2;
  params.early_stopping = static_cast<EarlyStopping>(random.between(0, 2));
  if (random.chance(0.3)) params.logprobs = random.between(0, 2);
}

SamplingParams random_params(RandomStream& random, const WorkloadConfig& config) {
  SamplingParams params;
  params.max_tokens = random.between(config.max_tokens.low, config.max_tokens.high);
  params.ignore_eos = random.chance(config.ignore_eos_probability);
  params.stop_token_ids = random_tokens(
      random, random.between(config.num_stop_token_ids.low, config.num_stop_token_ids.high),
      config.vocab_size);
  params.n = random.between(config.num_outputs.low, config.num_outputs.high);
  if (random.chance(config.prompt_logprobs_probability)) params.prompt_logprobs = 0;
  if (random.chance(config.greedy_probability)) {
    params.temperature = 0;
  } else {
    params.seed = static_cast<std::uint64_t>(random.between(0, 1 << 30));
  }
  if (config.beam_search_probability > 0 && random.chance(config.beam_search_probability)) {
    search(random, config, params);
  }
  return params;
}

}  // namespace

std::vector<WorkloadRequest> make_workload(const WorkloadConfig& config) {
  RandomStream random(config.seed);
  std::vector<WorkloadRequest> workload;
  Instant now{};
  RequestId next_id = 1;
  for (std::int32_t i = 0; i < config.num_requests; ++i) {
    now += exponential(random, config.mean_interarrival);
    WorkloadRequest each;
    each.arrival = now;
    if (random.chance(config.abort_probability)) {
      each.abort = now + exponential(random, config.mean_time_to_abort);
    }
    SamplingParams params = random_params(random, config);
    if (random.chance(config.pooling_probability)) {
      each.request.pooling = static_cast<Pooling>(random.between(1, 3));
      params = SamplingParams();
    }
    each.request.request_id = next_id;
    next_id += static_cast<RequestId>(params.num_ids());
    each.request.prompt_token_ids = random_prompt(random, config, workload);
    each.request.priority =
        static_cast<std::int32_t>(random.between(config.priority.low, config.priority.high));
    if (config.num_users > 1) {
      each.request.user = "user " + std::to_string(random.between(1, config.num_users));
    }
    if (config.deadline_ms.low < config.deadline_ms.high) {
      each.request.deadline = std::chrono::milliseconds(
          random.between(config.deadline_ms.low, config.deadline_ms.high));
    }
    if (config.scope_probability > 0 && random.chance(config.scope_probability)) {
      each.request.cache_scope.low = static_cast<std::uint64_t>(random.between(1, 3));
    }
    each.request.sampling_params = std::make_shared<const SamplingParams>(std::move(params));
    workload.push_back(std::move(each));
  }
  return workload;
}

}  // namespace quire
