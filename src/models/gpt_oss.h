// gpt-oss (OpenAI 2025, arXiv 2508.10925): a mixture of experts with biases and clamped gates in
// each layer, every other layer with a sliding window, and one more score, a learned one, in each
// head's softmax. Checkpoints in bfloat16.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> gpt_oss_from_config(const JsonReader& config);
extern const GgufForm kGptOssGguf;

}  // namespace quire
