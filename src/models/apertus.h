// Apertus (Swiss AI Initiative 2025, arXiv 2509.14233): Llama's layer with norms of query and key
// heads and an MLP without a gate, whose activation, xIELU, has learned slopes in each layer.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> apertus_from_config(const JsonReader& config);
extern const GgufForm kApertusGguf;

}  // namespace quire
