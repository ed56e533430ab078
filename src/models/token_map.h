// Drafters that know only some of a model's tokens, the most frequent ones.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "weights/weight_source.h"

namespace quire {

// The model's token of each of the drafter's, from a tensor of 64-bit integers: the tokens (vLLM's
// token_map of Medusa) or, where they are `offsets`, what has to be added to the drafter's (EAGLE's
// d2t). kBadModel for another type, and for a token that the model does not have.
Result<std::vector<TokenId>> read_token_map(const TensorInfo& tensor, bool offsets,
                                            std::int64_t model_vocab_size);

}  // namespace quire
