// OLMoE (Muennighoff et al. 2024): a mixture of many small experts in every layer, and norms of
// queries and keys over all heads of a token.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> olmoe_from_config(const JsonReader& config);
extern const GgufForm kOlmoeGguf;

}  // namespace quire
