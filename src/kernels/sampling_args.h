// The arguments and results of choosing tokens. All of it, lists too, is in the host's memory, and
// must stay as it is until the stream that it was given to is synchronized.
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/token_scores.h"

namespace quire {

// What is done to a row of logits before a token is chosen, in this order. A banned token's logit
// becomes minus infinity.
struct LogitEdits {
  // Bit i % 32 of word i / 32: whether token i is allowed; empty: every token is.
  std::span<const std::uint32_t> mask = {};
  std::span<const TokenId> allowed = {};  // all others are banned; empty: none is
  std::span<const LogitBias> biases = {};
  // Never ban the last token that is left: where they would, they do not apply (an output must go
  // on with some token).
  std::span<const TokenId> banned = {};
  double repetition_penalty = 1.0;          // of each token in token_ids (Keskar et al. 2019)
  double presence_penalty = 0.0;            // of each token in token_ids from num_prompt_tokens on
  double frequency_penalty = 0.0;           // the same, for each time that it stands there
  std::span<const TokenId> token_ids = {};  // prompt, then output
  std::int32_t num_prompt_tokens = 0;

  bool has_penalties() const {
    return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0;
  }
  bool empty() const {
    return mask.empty() && allowed.empty() && biases.empty() && banned.empty() && !has_penalties();
  }
};

// How a token is drawn from logits: temperature, min_p, top_k, top_p, then the random number.
struct TokenDraw {
  bool greedy = false;  // the best token; nothing else counts
  double temperature = 1.0;
  std::int64_t top_k = 0;
  double top_p = 1.0;
  double min_p = 0.0;
  double uniform = 0.0;  // in [0, 1)
};

// A row whose token is chosen. Log probabilities are of the logits before the edits.
struct SampleArgs {
  LogitEdits edits;
  TokenDraw draw;
  bool wants_logprob = false;        // and rank
  std::span<TokenLogprob> top = {};  // filled with the most probable tokens, best first
};

// A row whose log probability of a given token is asked for.
struct ScoreArgs {
  TokenId token_id = 0;
  std::span<TokenLogprob> top = {};  // as SampleArgs::top
};

struct RowSample {
  TokenLogprob token;   // logprob and rank: 0 where they were not asked for
  bool finite = false;  // the row's logits; where not, nothing else is filled in
};

}  // namespace quire
