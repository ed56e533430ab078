// MiniMax-M2 (MiniMax 2025): a mixture of experts in every layer, full attention.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> minimax_m2_from_config(const JsonReader& config);
extern const GgufForm kMinimaxM2Gguf;

}  // namespace quire
