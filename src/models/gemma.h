// Gemma 3, text (Gemma Team 2025): sandwich norms, norms of query and key heads, GELU, embeddings
// scaled by sqrt(hidden_size), and layers that alternate between a window and all keys, each kind
// with a rope base of its own.
#pragma once

#include "base/json.h"
#include "models/spec.h"
#include "weights/gguf.h"

namespace quire {

Result<DecoderSpec> gemma3_from_config(const JsonReader& config);
Result<DecoderSpec> gemma3_from_gguf(const GgufFile& file);

}  // namespace quire
