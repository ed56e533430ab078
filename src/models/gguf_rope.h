// Rotary positions of GGUF files: the keys `ARCHITECTURE.rope.*` and the tensors of factors.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "models/gguf_form.h"
#include "models/spec.h"
#include "weights/gguf.h"

namespace quire {

// Adds what the file says of rotary positions to `config`, as config.json says it: `rope_theta` and
// `rope_scaling`, or `rope_parameters` by kind of layer where layers with a window have a base of
// their own. What `rope_scaling` has already is kept where the file has YaRN, and else goes.
// kUnimplemented by name for another scaling than linear, YaRN and longrope.
Status set_gguf_rope(const GgufFile& file, const GgufForm& form, json::object& config);

// The tensor rope_freqs.weight, in which the converter puts the factor of each pair of Llama 3.1's
// scaling. kBadModel for one of another shape, or beside a scaling.
Status take_gguf_rope_factors(const GgufFile& file, DecoderSpec& spec);

}  // namespace quire
