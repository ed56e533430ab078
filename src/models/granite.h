// Granite 3 (IBM 2024): Llama with scales of its own for embeddings, attention, what layers add,
// and logits.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> granite_from_config(const JsonReader& config);

// The same with its layers made, not validated yet: for families that change what is in them.
Result<DecoderDraft> granite_draft(const JsonReader& config);
// What GGUF calls the multipliers.
inline constexpr GgufKey kGraniteScaleKeys[] = {
    {"logit_scale", "logits_scaling"},
    {"residual_scale", "residual_multiplier"},
    {"embedding_scale", "embedding_multiplier"},
    {"attention.scale", "attention_multiplier"},
};

extern const GgufForm kGraniteGguf;

}  // namespace quire
