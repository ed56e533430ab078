// EXAONE 4 (LG AI Research 2025): norms after the blocks and of query and key heads; where layers
// have sliding windows, those that see all keys have no positions.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> exaone4_from_config(const JsonReader& config);
extern const GgufForm kExaone4Gguf;

}  // namespace quire
