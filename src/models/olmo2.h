// OLMo 2 (OLMo Team 2024): RMS norms after each block in place of those before it, and norms of the
// queries and keys of all heads together.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> olmo2_from_config(const JsonReader& config);
extern const GgufForm kOlmo2Gguf;

}  // namespace quire
