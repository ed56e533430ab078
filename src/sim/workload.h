// Random traffic: what arrives when, and which clients go away. One seed gives one trace.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "core/request.h"

namespace quire {

// A sequence of random numbers from one seed.
class RandomStream {
 public:
  explicit RandomStream(std::uint64_t seed) : seed_(seed) {}
  double uniform() { return random_uniform(seed_, counter_++); }  // in [0, 1)
  bool chance(double probability) { return uniform() < probability; }
  std::int64_t between(std::int64_t low, std::int64_t high) {  // both included
    const auto range = static_cast<std::uint64_t>(high - low) + 1;
    return low + static_cast<std::int64_t>(random_bits(seed_, counter_++) % range);
  }

 private:
  std::uint64_t seed_;
  std::uint64_t counter_ = 0;
};

struct Range {  // both included
  std::int64_t low = 0;
  std::int64_t high = 0;
};

struct WorkloadConfig {
  std::uint64_t seed = 0;
  std::int32_t num_requests = 0;
  Duration mean_interarrival{};  // arrivals are a Poisson process
  Range prompt_tokens{1, 1};
  Range max_tokens{1, 1};
  Range num_stop_token_ids{0, 0};
  double ignore_eos_probability = 0;
  Range num_outputs{1, 1};  // n of each request
  Range priority{0, 0};
  // The probability that a prompt begins as an earlier one does, up to a random place; half of
  // these repeat all of it.
  double shared_prefix_probability = 0;
  std::int32_t num_users = 1;
  Range deadline_ms{60'000, 60'000};
  double scope_probability = 0;  // that it is of another scope than zero
  double prompt_logprobs_probability = 0;
  double pooling_probability = 0;  // that the hidden state is wanted, and no output
  double beam_search_probability = 0;
  double greedy_probability = 0;  // others draw with a random seed of their own
  double abort_probability = 0;   // that a client goes away before its answer is complete
  Duration mean_time_to_abort{};  // from the arrival; exponentially distributed
  std::int32_t vocab_size = 1;
};

struct WorkloadRequest {
  Instant arrival{};
  std::optional<Instant> abort;  // when its client goes away
  AddRequest request;            // ids count outputs, from 1, in order of arrival
};

// In order of arrival.
std::vector<WorkloadRequest> make_workload(const WorkloadConfig& config);

}  // namespace quire
