#include "sim/workload.h"

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

}  // namespace

std::vector<WorkloadRequest> make_workload(const WorkloadConfig& config) {
  RandomStream random(config.seed);
  std::vector<WorkloadRequest> workload;
  Instant now{};
  for (std::int32_t i = 0; i < config.num_requests; ++i) {
    now += exponential(random, config.mean_interarrival);
    SamplingParams params;
    params.max_tokens = random.between(config.max_tokens.low, config.max_tokens.high);
    params.ignore_eos = random.chance(config.ignore_eos_probability);
    params.stop_token_ids = random_tokens(
        random, random.between(config.num_stop_token_ids.low, config.num_stop_token_ids.high),
        config.vocab_size);
    WorkloadRequest each;
    each.arrival = now;
    if (random.chance(config.abort_probability)) {
      each.abort = now + exponential(random, config.mean_time_to_abort);
    }
    each.request.request_id = static_cast<RequestId>(i) + 1;
    each.request.prompt_token_ids =
        random_tokens(random, random.between(config.prompt_tokens.low, config.prompt_tokens.high),
                      config.vocab_size);
    each.request.sampling_params = std::make_shared<const SamplingParams>(std::move(params));
    workload.push_back(std::move(each));
  }
  return workload;
}

}  // namespace quire
