// GPT-J (Wang and Komatsuzaki 2021): attention and an MLP without a gate side by side behind one
// layer norm; neighbouring dimensions of a part of each head turn together.
#pragma once

#include "base/json.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> gptj_from_config(const JsonReader& config);

}  // namespace quire
