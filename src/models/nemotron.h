// Nemotron 3 and 4, Minitron (NVIDIA 2024): layer norms whose weights are stored around 0, an MLP
// without a gate that squares what is above 0, heads of which the first half turns.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> nemotron_from_config(const JsonReader& config);
extern const GgufForm kNemotronGguf;

}  // namespace quire
