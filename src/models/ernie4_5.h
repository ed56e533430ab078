// ERNIE 4.5 without experts (Baidu 2025): Llama whose neighbouring dimensions of a head turn
// together.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> ernie4_5_from_config(const JsonReader& config);
extern const GgufForm kErnie4_5Gguf;

}  // namespace quire
