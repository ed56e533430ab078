// LFM2 (Liquid AI 2025): most layers mix tokens by a gated short convolution, which keeps a state
// of fixed size, the others by attention with norms of query and key heads.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> lfm2_from_config(const JsonReader& config);
extern const GgufForm kLfm2Gguf;

}  // namespace quire
