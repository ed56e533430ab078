#include "nn/repeat_in_cache.h"

#include <algorithm>

namespace quire {

void repeat_in_cache(ForwardContext& ctx, const RopeAndCacheArgs& heads, const std::int64_t* slots,
                     float* scratch, std::int64_t size) {
  const std::int64_t width = std::int64_t{heads.all_heads()} * heads.layout.head_dim;
  const std::int64_t at_once = std::min(size / width, heads.num_tokens);
  RopeAndCacheArgs again = heads;
  again.qkv = scratch;
  again.rope_table = nullptr;  // they are turned and normed already
  again.rotary_dim = 0;
  again.q_norm = nullptr;
  again.k_norm = nullptr;
  for (std::int64_t begin = 0; begin < ctx.tokens.num_repeated; begin += at_once) {
    again.num_tokens = std::min(at_once, ctx.tokens.num_repeated - begin);
    again.slot_mapping = slots + begin;
    ctx.ops.gather_rows(heads.qkv, ctx.tokens.repeated_rows + begin, again.num_tokens, width,
                        scratch);
    ctx.ops.rope_and_cache(again);
  }
}

}  // namespace quire
