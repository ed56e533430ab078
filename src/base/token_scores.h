// Numbers that belong to tokens, as requests give them and results have them.
#pragma once

#include <cstdint>

#include "base/ids.h"

namespace quire {

// Added to one token's logit before anything else looks at it.
struct LogitBias {
  TokenId token_id = 0;
  float bias = 0.0F;  // in [-100, 100]
};

// A token and its place in the model's own distribution (before temperature and every other
// transform).
struct TokenLogprob {
  TokenId token_id = 0;
  float logprob = 0.0F;   // natural log
  std::int32_t rank = 0;  // 1: the most probable; 0: was not asked for
};

}  // namespace quire
