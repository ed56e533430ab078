// LFM2 (Liquid AI 2025): most layers mix tokens by a gated short convolution, which keeps a state
// of fixed size, the others by attention with norms of query and key heads. LFM2-MoE: the layers
// from the third on have experts, which sigmoids and a bias choose.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> lfm2_from_config(const JsonReader& config);
extern const GgufForm kLfm2Gguf;

Result<DecoderSpec> lfm2_moe_from_config(const JsonReader& config);
extern const GgufForm kLfm2MoeGguf;

}  // namespace quire
