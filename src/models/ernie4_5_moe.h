// ERNIE 4.5 with a mixture of experts (Baidu 2025), text alone.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> ernie4_5_moe_from_config(const JsonReader& config);
extern const GgufForm kErnie4_5MoeGguf;

}  // namespace quire
