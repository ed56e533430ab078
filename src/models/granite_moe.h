// Granite's mixtures of experts (IBM 2024): Granite, of whose layers each has a mixture.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> granite_moe_from_config(const JsonReader& config);
extern const GgufForm kGraniteMoeGguf;

}  // namespace quire
