// GPT-NeoX (Black et al. 2022), Pythia (Biderman et al. 2023): layer norms, attention and an MLP
// without a gate side by side, each with a norm of its own, a part of each head turns.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> gpt_neox_from_config(const JsonReader& config);
extern const GgufForm kGptNeoxGguf;

}  // namespace quire
