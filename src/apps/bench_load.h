// A closed-loop load on an engine in this process: `num_prompts` random prompts of one length, a
// fixed number of them in flight, their outputs of one length or of random ones.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "apps/interrupt.h"
#include "apps/statistics.h"
#include "engine/api.h"

namespace quire {

struct LoadShape {
  std::int64_t input_len = 32;
  std::int64_t output_len = 128;  // of each request, or their mean
  // Set: output lengths are drawn from a geometric distribution, at most this long. It is the
  // distribution of a text that ends with the same probability after each token.
  std::optional<std::int64_t> max_geometric_len;
  std::int64_t num_prompts = 16;
  std::int64_t concurrency = 1;  // requests in flight
  std::uint64_t seed = 0;

  // Output tokens of request `index`; depends on the seed alone.
  std::int64_t output_len_of(std::int64_t index) const;
};

struct LoadResult {
  LoadShape shape;
  double elapsed_s = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t output_tokens = 0;
  std::int64_t num_preemptions = 0;
  std::vector<double> ttft_s;  // of each request
  std::vector<double> tpot_s;
  std::uint64_t output_hash = 0;  // of all output tokens of all requests, in order of request

  double output_tokens_per_s() const { return static_cast<double>(output_tokens) / elapsed_s; }
  double total_tokens_per_s() const {
    return static_cast<double>(prompt_tokens + output_tokens) / elapsed_s;
  }
};

// `length` random ordinary tokens: what they say does not matter, only how many they are. The same
// for the same `stream`.
std::vector<TokenId> random_prompt(const Engine& engine, std::int64_t length, std::uint64_t stream);

// Greedy, end of sequence ignored, so that every request gives exactly its number of tokens. Shows
// progress on stderr. kInvalidArgument if the lengths do not fit the engine, kCancelled at an
// interrupt.
Result<LoadResult> run_load(Engine& engine, const LoadShape& shape,
                            const InterruptWatcher& interrupt);

json::object to_json(const LoadResult& result);

}  // namespace quire
