// What GGUF files of all families have in common: keys under `general.architecture`, and tensor
// names.
#pragma once

#include <string>

#include "models/spec.h"
#include "weights/gguf.h"

namespace quire {

extern const std::span<const TensorName> kGgufTensorNames;

// A draft, ropes included, from keys that start with `prefix`. Biases and tied embeddings are what
// the file's tensors show. Errors: kBadModel for a key that is missing or of the wrong
// kind; kUnimplemented by name for partial rotary positions, keys and values of different
// lengths, scales of embeddings, residuals or logits.
Result<DecoderDraft> read_common_gguf(const GgufFile& file, const std::string& prefix);

// kUnimplemented by name where `PREFIX.expert_count` is not 0.
Status refuse_gguf_experts(const GgufFile& file, const std::string& prefix);

// The mixture that the layers of a file have. `weights_sum_to_one`: what the family does where the
// file does not say.
// kUnimplemented by name for shared experts, groups of experts, scales and other functions than the
// softmax.
Result<MoeSpec> read_gguf_moe(const GgufFile& file, const std::string& prefix,
                              const DecoderDraft& draft, bool weights_sum_to_one);

// `PREFIX.attention.sliding_window`: keys that a query sees, or 0 where the key is absent or 0.
Result<std::int32_t> read_gguf_window(const GgufFile& file, const std::string& prefix);

// kUnimplemented by name where that is not 0: for families of whose layers only some would have it,
// and the file does not say which.
Status refuse_gguf_window(const GgufFile& file, const std::string& prefix);

}  // namespace quire
