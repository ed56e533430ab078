// dots.llm1 (rednote-hilab 2025, arXiv 2506.05767): Qwen3's attention, DeepSeek-V3's mixture.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> dots1_from_config(const JsonReader& config);
extern const GgufForm kDots1Gguf;

}  // namespace quire
