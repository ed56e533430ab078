#include "sim/random_trace.h"

#include <algorithm>
#include <array>

#include "base/checked.h"
#include "base/random.h"
#include "core/kv_group.h"
#include "sim/simulated_executor.h"

namespace quire {
namespace {

using namespace std::chrono_literals;

std::int32_t pick(RandomStream& random, std::int64_t low, std::int64_t high) {
  return static_cast<std::int32_t>(random.between(low, high));
}

SchedulerConfig random_scheduler(RandomStream& random) {
  SchedulerConfig config;
  config.block_size = random.chance(0.4) ? pick(random, 1, 4) : pick(random, 1, 32);
  config.max_model_len = pick(random, 2, 120);
  config.max_num_seqs = random.chance(0.1) ? 1 : pick(random, 2, 10);
  config.enable_chunked_prefill = random.chance(0.8);
  config.max_num_batched_tokens =
      config.enable_chunked_prefill
          ? pick(random, 1, 64)
          : pick(random, config.max_model_len, std::int64_t{2} * config.max_model_len);
  config.max_queued = random.chance(0.1) ? pick(random, 1, 4) : 64;
  const std::int64_t blocks_of_longest = ceil_div(config.max_model_len, config.block_size);
  config.num_blocks = random.chance(0.1) ? pick(random, 1, blocks_of_longest)
                                         : pick(random, blocks_of_longest,
                                                random.between(1, 4) * blocks_of_longest);
  config.enable_prefix_caching = random.chance(0.8);
  config.policy = random.chance(0.4) ? SchedulingPolicy::kPriority : SchedulingPolicy::kFcfs;
  if (random.chance(0.4)) {
    config.batching = random.chance(0.5) ? Batching::kStatic : Batching::kDynamic;
    config.max_batch_delay = Duration(random.between(0, 20'000) * 1000);
  }
  return config;
}

// Requests that come together and begin with the same words.
void make_crowd(TraceConfig& trace) {
  SchedulerConfig& config = trace.scheduler;
  config.batching = Batching::kContinuous;
  config.enable_prefix_caching = true;
  config.max_num_seqs = std::max(config.max_num_seqs, 4);
  config.max_num_batched_tokens = std::max(config.max_num_batched_tokens, 64);
  config.block_size = std::min(config.block_size, 8);
  config.num_blocks =
      2 * static_cast<std::int32_t>(ceil_div(config.max_model_len, config.block_size));
  config.min_prefix_in_flight = 1;
  trace.workload.num_requests = 20;
  trace.workload.shared_prefix_probability = 0.95;
  trace.workload.mean_interarrival = std::chrono::microseconds(300);
}

// A pool that has to give up most of what it has cached, and a tier that keeps some of it. Its
// orders are those that know who goes before whom.
void make_tiered(TraceConfig& trace, std::uint64_t seed) {
  SchedulerConfig& config = trace.scheduler;
  config.kv_tier = true;
  config.batching = Batching::kContinuous;
  config.enable_prefix_caching = true;
  config.block_size = std::min(config.block_size, 8);
  config.num_blocks = static_cast<std::int32_t>(ceil_div(config.max_model_len, config.block_size)) *
                      static_cast<std::int32_t>(1 + seed / 16 % 3);
  trace.workload.num_requests = 20;
  trace.workload.shared_prefix_probability = 0.8;
  trace.tier = {.max_blocks = static_cast<std::int64_t>(4 + seed % 61),
                .block_time = std::chrono::microseconds(1 + seed % 7 * 150),
                .loss = seed / 8 % 4 == 0 ? 0.05 : 0.0,
                .seed = seed};
}

// A part of the pool that prompts may be pinned in, in some traces.
void allow_pins(SchedulerConfig& config, std::uint64_t seed) {
  const bool some = seed % 4 < 2 && config.enable_prefix_caching;
  config.max_pinned_blocks =
      some ? config.num_blocks * static_cast<std::int32_t>(1 + seed / 4 % 3) / 6 : 0;
}

// In some traces, requests start beside others only now and then.
void pace_admission(SchedulerConfig& config, std::uint64_t seed) {
  if (config.batching != Batching::kContinuous || seed % 5 != 2) return;
  config.admission = {.waiting_served_ratio = static_cast<double>(1 + seed / 5 % 15) / 10,
                      .max_waiting_tokens = static_cast<std::int32_t>(1 + seed / 10 % 20)};
}

}  // namespace

TraceConfig random_trace(std::uint64_t seed) {
  RandomStream random(seed);
  TraceConfig trace;
  trace.scheduler = random_scheduler(random);
  const std::int32_t max_model_len = trace.scheduler.max_model_len;
  WorkloadConfig& w = trace.workload;
  w.seed = seed;
  w.vocab_size = pick(random, 2, 200);
  w.num_requests = pick(random, 1, 20);
  w.mean_interarrival = random.chance(0.3) ? 0us : Duration(random.between(1, 5000) * 1000);
  w.prompt_tokens = {random.chance(0.05) ? 0 : 1,
                     random.between(1, max_model_len + (random.chance(0.1) ? 5 : -1))};
  w.max_tokens = {1, random.between(1, max_model_len)};
  w.num_stop_token_ids = {0, random.chance(0.3) ? 3 : 0};
  w.ignore_eos_probability = 0.3;
  if (random.chance(0.3)) w.num_outputs = {1, random.chance(0.2) ? 14 : 4};
  if (random.chance(0.6)) w.priority = {-1, random.between(0, 2)};
  w.shared_prefix_probability = random.chance(0.4) ? 0.0 : random.uniform();
  trace.scheduler.max_overtaken = static_cast<std::int32_t>(seed / 8 % 4);
  trace.scheduler.min_prefix_in_flight = static_cast<std::int32_t>(1 + seed / 4 % 24);
  trace.scheduler.max_draft_paths = static_cast<std::int32_t>(1 + seed / 2 % 5);
  if (seed % 16 == 6) make_crowd(trace);
  if (seed % 8 == 4) make_tiered(trace, seed);
  w.num_users = static_cast<std::int32_t>(1 + seed / 8 % 5);
  w.deadline_ms = {0, 50'000};
  w.scope_probability = seed % 3 == 0 ? 0.5 : 0.0;
  w.beam_search_probability = seed % 5 == 0 ? 0.5 : 0.0;
  w.prompt_logprobs_probability = random.chance(0.7) ? 0.0 : 0.4;
  w.pooling_probability = random.chance(0.7) ? 0.0 : random.uniform();
  // Half of the traces have a policy that is none of the two that there were at first; of those
  // that pool, whose preemption is rare enough, fewer.
  constexpr std::array kOthers = {SchedulingPolicy::kShortest, SchedulingPolicy::kDeadline,
                                  SchedulingPolicy::kFair, SchedulingPolicy::kLongestPrefix};
  if (seed % (w.pooling_probability > 0 ? 8 : 2) == 1) {
    trace.scheduler.policy = kOthers[(seed / 2 + seed / 8) % kOthers.size()];
  }
  w.greedy_probability = 0.5;
  w.abort_probability = random.chance(0.5) ? 0.4 : 0.0;
  w.mean_time_to_abort = Duration(random.between(1, 20000) * 1000);
  for (std::int32_t i = pick(random, 0, 2); i > 0; --i) {
    trace.scheduler.eos_token_ids.push_back(pick(random, 0, w.vocab_size - 1));
  }
  allow_pins(trace.scheduler, seed);
  pace_admission(trace.scheduler, seed);
  return trace;
}

TraceConfig random_trace_of_groups(std::uint64_t seed) {
  TraceConfig trace = random_trace(seed);
  SchedulerConfig& config = trace.scheduler;
  RandomStream random(mix64(seed + 1));
  config.kv_groups.assign(static_cast<std::size_t>(random.between(1, 4)), KvGroup{});
  for (KvGroup& group : config.kv_groups) {
    group.pages_per_block = random.chance(0.5) ? 1 : pick(random, 2, 4);
    if (random.chance(0.3)) continue;  // keeps all
    if (random.chance(0.3)) {
      group.window = KvGroup::kStateWindow;
      group.state = true;
      continue;
    }
    group.window = random.chance(0.5) ? pick(random, 1, std::int64_t{2} * config.block_size)
                                      : pick(random, 1, config.max_model_len + 10);
  }
  config.kv_tier = config.kv_tier && config.kv_groups == std::vector{KvGroup{}};
  if (!config.kv_tier) trace.tier = {};
  const auto longest = static_cast<std::int32_t>(max_pages(
      config.kv_groups, config.max_model_len, config.max_num_batched_tokens, config.block_size));
  config.num_blocks = random.chance(0.1)
                          ? pick(random, 1, longest)
                          : pick(random, longest, random.between(1, 4) * std::int64_t{longest});
  allow_pins(config, seed);
  return trace;
}

SoloRun solo_run(const AddRequest& request, std::int32_t sample_index,
                 const SchedulerConfig& config, std::int32_t vocab_size) {
  const SamplingParams& params = *request.sampling_params;
  const std::uint64_t stream = simulated_stream(params, sample_index);
  std::uint64_t history = 0;
  for (const TokenId id : request.prompt_token_ids) history = extend_history(history, id);
  const auto contains = [](const std::vector<TokenId>& ids, TokenId id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  SoloRun run;
  run.prompt_history = history;
  if (request.pooling != Pooling::kNone) {
    run.reason = FinishReason::kStop;
    return run;
  }
  const std::int64_t room = config.max_model_len - std::ssize(request.prompt_token_ids);
  while (std::ssize(run.output_token_ids) < std::min(params.max_tokens, room)) {
    const TokenId id = simulated_token(history, stream, vocab_size);
    history = extend_history(history, id);
    run.output_token_ids.push_back(id);
    if (contains(params.stop_token_ids, id) ||
        (!params.ignore_eos && contains(config.eos_token_ids, id))) {
      run.reason = FinishReason::kStop;
      break;
    }
  }
  return run;
}

DraftTree random_drafts(std::span<const TokenId> expected, RandomStream& random) {
  DraftTree drafts;
  if (random.chance(0.3)) {
    for (std::size_t i = 0; i < expected.size() && i < 5; ++i) {
      drafts.tokens.push_back(random.chance(0.8) ? expected[i] : 0);
    }
    return drafts;
  }
  std::vector<std::int64_t> right = {0};  // of the text and each guess: tokens that are, or -1
  const std::int64_t size = random.between(1, 12);
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t parent = random.chance(0.5) ? i - 1 : random.between(-1, i - 1);
    const std::int64_t depth = right[static_cast<std::size_t>(parent + 1)];
    const bool goes_on = depth >= 0 && depth < std::ssize(expected);
    const bool is_right = goes_on && random.chance(0.7);
    drafts.tokens.push_back(is_right ? expected[static_cast<std::size_t>(depth)]
                                     : static_cast<TokenId>(i % 2));
    drafts.parents.push_back(static_cast<std::int32_t>(parent));
    right.push_back(is_right ? depth + 1 : -1);
  }
  return drafts;
}

}  // namespace quire
