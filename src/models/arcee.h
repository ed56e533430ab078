// AFM (Arcee 2025): Llama whose MLP has no gate, and squares what is above 0.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> arcee_from_config(const JsonReader& config);
extern const GgufForm kArceeGguf;

}  // namespace quire
