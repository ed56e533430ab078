// A caller's own code over the logits of its outputs (SamplingParams::logits_processor).
#pragma once

#include <span>

#include "base/ids.h"
#include "base/status.h"

namespace quire {

class LogitsProcessor {
 public:
  LogitsProcessor() = default;
  virtual ~LogitsProcessor() = default;
  LogitsProcessor(const LogitsProcessor&) = delete;
  LogitsProcessor& operator=(const LogitsProcessor&) = delete;

  // Changes `logits` [vocab_size], the model's for the token after `output_token_ids`: any finite
  // number, or minus infinity, which bans a token. Both are valid during the call. On the
  // executor's thread, which computes nothing meanwhile; once for each token of each output, but
  // again for one that was lost with steps in flight. An error ends the request.
  virtual Status process(std::span<const TokenId> output_token_ids, std::span<float> logits) = 0;
};

}  // namespace quire
