// Hunyuan without experts (Tencent 2025): Llama with norms of query and key heads after rotation,
// and a rope base that a factor of its own stretches.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> hunyuan_from_config(const JsonReader& config);
extern const GgufForm kHunyuanGguf;

}  // namespace quire
