// One finished generation, and the JSON record that stands for it in `--json` and in batch output:
//   {"id", "outputs": [{"index", "text", "token_ids", "finish_reason"}, ...],
//    "usage": {"prompt_tokens", "completion_tokens", "prompt_tokens_details": {"cached_tokens"}}}
// with one output for each of n. Log probabilities stand with their output ("logprobs",
// "cumulative_logprob"), as does of which tokens the mask left no choice ("forced_tokens"), and the
// prompt's in "prompt_logprobs", where they were asked for.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "engine/api.h"

namespace quire {

// Gathers a request's outputs. (Not Generation, which the server has: two types of one name are one
// to the linker.)
struct GatheredOutputs {
  struct Output {
    std::string text;
    std::vector<TokenId> token_ids;
    std::vector<PositionLogprobs> logprobs;
    std::vector<bool> forced_tokens;
    std::optional<FinishReason> finish_reason;
    double cumulative_logprob = 0;
  };

  std::vector<Output> outputs;  // by index
  std::vector<PositionLogprobs> prompt_logprobs;
  RequestOutput last;                  // the latest piece without its text and tokens
  std::int64_t num_cached_tokens = 0;  // of the prompt, when output 0 computed it
  Status error;                        // the first that an output ended with

  void add(const RequestOutput& piece);
  std::int64_t num_output_tokens() const;  // of all outputs
};

// `params` say which log probabilities were asked for.
json::object generation_record(const json::value& id, const GatheredOutputs& generation,
                               const SamplingParams& params);

// Seconds of one finished request.
struct RequestTimings {
  double ttft_s = 0;  // arrival to first token
  double tpot_s = 0;  // between output tokens, mean; 0 with fewer than two
  double e2e_s = 0;   // arrival to end
};
RequestTimings request_timings(const RequestOutput& last);

}  // namespace quire
