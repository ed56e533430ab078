// What lies around the tensors of a made-up model: the small files of the Hugging Face layout, the
// header of safetensors, the header and keys of GGUF.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/make_model/model_shape.h"
#include "apps/make_model/synthetic_vocab.h"
#include "apps/make_model/tensor_list.h"
#include "base/json.h"

namespace quire {

struct NamedFile {
  std::string name;
  std::string content;
};

// config.json, generation_config.json, tokenizer.json, tokenizer_config.json. `encoding` is f32,
// f16 or bf16.
std::vector<NamedFile> hugging_face_files(const ModelShape& shape, const SyntheticVocab& vocab,
                                          std::string_view encoding);

// Everything of a safetensors file before its first tensor; tensors follow one another directly.
std::string safetensors_header(std::span<const MadeTensor> tensors);

inline constexpr std::uint64_t kMadeGgufAlignment = 32;

// Everything of a GGUF file before its first tensor, padded to the alignment; each tensor begins at
// the next multiple of it.
std::string gguf_header(const ModelShape& shape, const SyntheticVocab& vocab,
                        std::string_view encoding, std::span<const MadeTensor> tensors);

}  // namespace quire
