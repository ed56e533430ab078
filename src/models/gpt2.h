// GPT-2 (Radford et al. 2019): learned positions, layer norms, an MLP without a gate. Its matrices
// are stored the other way round.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> gpt2_from_config(const JsonReader& config);
extern const GgufForm kGpt2Gguf;

}  // namespace quire
