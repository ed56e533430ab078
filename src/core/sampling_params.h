// How one request's tokens are chosen and when it ends. Validated once, then immutable; shared by
// the scheduler (limits, stop ids) and the executor (sampling).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"

namespace quire {

// Names, defaults and rules are vLLM's SamplingParams.
struct SamplingParams {
  double temperature = 1.0;  // >= 0; below kGreedyTemperature the best token is taken
  std::int64_t top_k = 0;    // keep the k most probable tokens; 0 and -1: all
  double top_p = 1.0;        // keep the smallest set with at least this probability, in (0, 1]
  // Seed of the request's own random stream; the engine fills one in where the user gave none.
  std::optional<std::uint64_t> seed;
  std::int64_t max_tokens = 16;         // output tokens, >= 1
  bool ignore_eos = false;              // end-of-sequence ids do not end the output
  std::vector<std::string> stop;        // strings that end the output; matched on text
  std::vector<TokenId> stop_token_ids;  // ids that end the output, besides end of sequence

  static constexpr double kGreedyTemperature = 1e-5;
  static constexpr std::int64_t kMaxStopStrings = 64;
  static constexpr std::int64_t kMaxStopTokenIds = 1024;
  static constexpr std::size_t kMaxStopBytes = 4096;  // of one stop string

  bool greedy() const { return temperature < kGreedyTemperature; }

  // kInvalidArgument naming the field, its value and the rule it breaks. NaN and infinities break
  // every numeric rule. Token ids must be in [0, vocab_size).
  Status validate(std::int64_t vocab_size) const;
};

}  // namespace quire
