// Gemma 3n, text (Gemma Team 2025; MatFormer, Devvrit et al. 2023): Gemma 3's layer, of which one
// of several streams of a token is computed (nn/altup_block.h), with a residual of low rank beside
// attention (nn/laurel_block.h), gates of which the first layers open few (nn/sparse_mlp_block.h),
// an embedding for each layer (nn/per_layer_block.h), normed values, and last layers that read the
// keys and values of earlier ones.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> gemma3n_from_config(const JsonReader& config);
extern const GgufForm kGemma3nGguf;

}  // namespace quire
