// Seed-OSS (ByteDance 2025): Llama with biases of queries, keys and values.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> seed_oss_from_config(const JsonReader& config);
extern const GgufForm kSeedOssGguf;

}  // namespace quire
