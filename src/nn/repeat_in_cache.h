// Keys and values of a step's tokens that lie in the cache in more than one place: where drafts
// form a tree, a token that several paths share is computed once, and each path reads it in its own
// blocks.
#pragma once

#include <cstdint>

#include "kernels/row_args.h"
#include "nn/forward_context.h"

namespace quire {

// After `heads` have been taken on and stored: stores those of StepTokens::repeated_rows once more,
// at `slots`. They are stored from the same numbers, and so are the same to the bit. `scratch` has
// room for `size` floats, for one token's heads at least.
void repeat_in_cache(ForwardContext& ctx, const RopeAndCacheArgs& heads, const std::int64_t* slots,
                     float* scratch, std::int64_t size);

}  // namespace quire
