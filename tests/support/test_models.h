// Where the tests' models lie, and what to do where one is absent: a skip on a user's machine, a
// failure in CI, which has all of them.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/op_table.h"

namespace quire::test {

inline std::string smollm2() {
  return QUIRE_SOURCE_DIR "/models/SmolLM2-135M-Instruct/SmolLM2-135M-Instruct.Q4_1.gguf";
}
inline std::string gemma3_270m() {
  return QUIRE_SOURCE_DIR "/models/Gemma-3-270M/gemma-3-270m-q4_k_m.gguf";
}
inline std::string stories260k() { return QUIRE_SOURCE_DIR "/../shared/models/stories260k"; }
inline std::string tiny_llama(const std::string& file) {
  return QUIRE_SOURCE_DIR "/tests/data/tiny_llama/" + file;
}
// Tiny models whose matrices have all K encodings, or all compact ones: "tiny_kquants",
// "tiny_compact".
inline std::string tiny_encodings(const std::string& name) {
  return QUIRE_SOURCE_DIR "/tests/data/" + name + "/" + name + ".gguf";
}

// One tiny checkpoint of each family with its goldens.
inline constexpr std::string_view kFamilies[] = {
    "llama",         "mistral",
    "qwen2",         "qwen3",
    "gemma3",        "granite",
    "phi3",          "smollm3",
    "olmo2",         "stablelm",
    "starcoder2",    "cohere",
    "seed_oss",      "ernie4_5",
    "helium",        "glm",
    "glm4",          "olmo3",
    "exaone4",       "cohere2",
    "ministral",     "arcee",
    "nemotron",      "phi",
    "olmo",          "hunyuan",
    "gpt_neox",      "gptj",
    "mixtral",       "qwen2_moe",
    "qwen3_moe",     "olmoe",
    "granite_moe",   "glm4_moe",
    "ernie4_5_moe",  "minimax_m2",
    "dots1",         "gemma",
    "gemma3_images", "mistral3",
    "llava",         "qwen2_5_vl",
    "qwen3_vl",      "gemma2",
    "gemma4",        "deepseek_v2",
    "deepseek_v3",   "glm4_moe_lite",
    "gpt2",          "opt",
    "bloom",         "mpt",
    "falcon",        "falcon_grouped",
    "falcon_rw",     "xglm",
    "ministral3",    "apertus",
    "gpt_oss",       "cwm",
    "jais2",         "llama4",
    "flex_olmo",     "qwen2_moe_sparse",
    "lfm2",          "lfm2_moe",
    "gemma3n",       "gemma3n_sizes",
};
inline std::string family_golden(std::string_view family, const std::string& file) {
  return QUIRE_SOURCE_DIR "/tests/data/families/" + std::string(family) + "/" + file;
}
// One of its forms. The build makes those of which only a list of tensors is committed
// (make_families.cpp).
inline std::string family_model(std::string_view family, const std::string& file) {
  const std::string made_of = file == "hf" ? "weights.json" : "gguf.json";
  if (std::filesystem::exists(family_golden(family, made_of))) {
    return QUIRE_FAMILIES_DIR "/" + std::string(family) + "/" + file;
  }
  return family_golden(family, file);
}

// Those of which a router sends tokens to experts.
inline bool is_mixture(std::string_view family) {
  return family.find("moe") != family.npos || family.starts_with("deepseek") ||
         family == "mixtral" || family == "minimax_m2" || family == "dots1" ||
         family == "gpt_oss" || family == "llama4" || family == "flex_olmo";
}

// Those of which some layers keep a state of fixed size: nothing drafts for them, and a prefix is
// found to the end of a block.
inline bool keeps_states(std::string_view family) { return family.starts_with("lfm2"); }

// Its forms: "hf", and "model.gguf" of the families that are read from GGUF too.
inline std::vector<std::string> family_files(std::string_view family) {
  for (const char* const file : {"model.gguf", "gguf.json"}) {
    if (std::filesystem::exists(family_golden(family, file))) return {"hf", "model.gguf"};
  }
  return {"hf"};
}

// One tiny checkpoint of each way that safetensors are quantized.
inline constexpr std::string_view kQuantizedKinds[] = {
    "gptq_w4_g128",
    "gptq_w4_g32_asym",
    "gptq_v2_w4_g64_asym",
    "gptq_w4_row_mixed",
    "gptq_w8_row",
    "gptq_v2_w8_g32_asym",
    "gptq_w4_g32_act_order",
    "gptq_w3_g32",
    "gptq_w2_g64",
    "auto_round_w4_g128",
    "auto_round_w4_g64_asym",
    "awq_gemm_g64",
    "awq_gemv_g64",
    "compressed_w4_g32",
    "compressed_w4_g128",
    "compressed_w4_g128_asym",
    "compressed_w8a8",
    "fp8_blocks",
    "fp8_tensor",
    "compressed_fp8_channel",
    "llm_int8",
    "bnb_nf4",
    "bnb_nf4_double",
    "bnb_fp4_b128",
    "bnb_fp4_double_b4096",
    "compressed_nvfp4",
    "compressed_mxfp4",
    "hqq_w4_g64",
    "hqq_w4_g128_bf16",
    "hqq_w4_g32",
    "hqq_w8_g64",
    "hqq_w3_g64",
    "hqq_w2_g64_bf16",
    "hqq_w2_g256",
    "torchao_int8",
    "torchao_int4_unpacked",
    "torchao_fp8",
    "mxfp4_gpt_oss",
};
inline std::string quantized_model(std::string_view kind) {
  return QUIRE_SOURCE_DIR "/tests/data/quantized/" + std::string(kind);
}

inline bool in_ci() { return std::getenv("CI") != nullptr; }

// Sets the instruction-set level for engines that are created in its scope.
class ForceIsa {
 public:
  explicit ForceIsa(IsaLevel level) {
    ::setenv("QUIRE_FORCE_ISA", std::string(isa_level_name(level)).c_str(), 1);
  }
  ~ForceIsa() { ::unsetenv("QUIRE_FORCE_ISA"); }
  ForceIsa(const ForceIsa&) = delete;
  ForceIsa& operator=(const ForceIsa&) = delete;
};

}  // namespace quire::test

#define QUIRE_REQUIRE_FILE(path)                                     \
  do {                                                               \
    if (!std::filesystem::exists(path)) {                            \
      if (::quire::test::in_ci()) FAIL() << (path) << " is missing"; \
      GTEST_SKIP() << (path) << " is not there (see README)";        \
    }                                                                \
  } while (false)
