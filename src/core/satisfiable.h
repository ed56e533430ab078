// Whether what a request asks of its tokens leaves any.
#pragma once

#include <span>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "core/sampling_params.h"

namespace quire {

// kInvalidArgument where the first token cannot be any: all that are allowed are ruled out by
// bad words of one token (`bad_words`: the token ids of each) or, with min_tokens, as tokens that
// end the output. Later bans can leave nothing, too; they then do not count (LogitEdits).
Status check_satisfiable(const SamplingParams& params,
                         std::span<const std::vector<TokenId>> bad_words,
                         std::span<const TokenId> eos_token_ids, std::int64_t vocab_size);

}  // namespace quire
