// OLMo 3 (OLMo Team 2025): OLMo 2 with a sliding window in all layers but every fourth, which alone
// scale their rotary positions.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> olmo3_from_config(const JsonReader& config);
extern const GgufForm kOlmo3Gguf;

}  // namespace quire
