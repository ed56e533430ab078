// Checkpoints of mixed encodings against the reference implementation (transformers, float32): tiny
// ones, and Gemma 3 270M in Q4_K, Q5_0, Q6_K and Q8_0. The goldens are made by
// scripts/make_goldens.sh.
#include <gtest/gtest.h>

#include "support/golden.h"
#include "support/score.h"
#include "support/teacher_forced.h"
#include "support/test_models.h"

namespace quire::test {
namespace {

class MixedEncodings : public ::testing::TestWithParam<IsaLevel> {
 protected:
  void SetUp() override {
    const auto levels = available_levels();
    if (std::find(levels.begin(), levels.end(), GetParam()) == levels.end()) {
      GTEST_SKIP() << "this processor has no " << isa_level_name(GetParam());
    }
  }

  float tiny_difference(const std::string& name, ActivationMode mode, DType kv_dtype) {
    auto scorer = Scorer::open(tiny_encodings(name), GetParam(), mode, kv_dtype, 64);
    EXPECT_TRUE(scorer.ok()) << scorer.status().to_string();
    if (!scorer.ok()) return INFINITY;
    const auto prompt = token_ids(golden(name + "/goldens.json").at("prompt_token_ids"));
    return largest_difference((*scorer)->score(prompt, 0), golden_floats(name + "/logits.bin"));
  }

  void check_gemma(ActivationMode mode, DType kv_dtype, double allowed_gap, double allowed_nll) {
    QUIRE_REQUIRE_FILE(gemma3_270m());
    // The scalar level is some hundred times slower: a few positions show that it is right.
    const bool scalar = GetParam() == IsaLevel::kRef;
    check_teacher_forced({.model = gemma3_270m(),
                          .goldens = golden("gemma3_270m/greedy.json"),
                          .level = GetParam(),
                          .mode = mode,
                          .kv_dtype = kv_dtype,
                          .max_tokens = 1088,
                          .num_prompts = num_prompts_at(GetParam()),
                          .num_positions = scalar ? 4U : 64U},
                         allowed_gap, scalar ? 10 * allowed_nll : allowed_nll);
  }
};

TEST_P(MixedEncodings, TinyKQuantsLogitsWithin1e4) {
  EXPECT_LE(tiny_difference("tiny_kquants", ActivationMode::kFloat32, DType::kF32), 1e-4F);
}

TEST_P(MixedEncodings, TinyKQuantsQuantizedActivationsStayClose) {
  EXPECT_LE(tiny_difference("tiny_kquants", ActivationMode::kInt16, DType::kBF16), 0.1F);
}

TEST_P(MixedEncodings, TinyCompactLogitsWithin1e4) {
  EXPECT_LE(tiny_difference("tiny_compact", ActivationMode::kFloat32, DType::kF32), 1e-4F);
}

// Inputs of compact weights have 8 bits at levels with a dot product of bytes. What a random model
// makes of that is chance: 0.23 with the attention of an AMD Zen 4, 0.55 with that of an Intel
// processor.
TEST_P(MixedEncodings, TinyCompactQuantizedActivationsStayClose) {
  const bool bytes = GetParam() >= IsaLevel::kAvx512VnniBf16;
  EXPECT_LE(tiny_difference("tiny_compact", ActivationMode::kInt16, DType::kBF16),
            bytes ? 0.6F : 0.2F);
}

TEST_P(MixedEncodings, Gemma3InFloat32) {
  check_gemma(ActivationMode::kFloat32, DType::kF32, 0.002, 1e-4);
}

// The default arithmetic of quantized weights: int8 activations, bfloat16 cache.
TEST_P(MixedEncodings, Gemma3InDefaultArithmetic) {
  check_gemma(ActivationMode::kInt16, DType::kBF16, 0.25, 0.005);
}

INSTANTIATE_TEST_SUITE_P(Levels, MixedEncodings, ::testing::ValuesIn(kIsaLevels),
                         [](const auto& level) {
                           return std::string(isa_level_name(level.param));
                         });

}  // namespace
}  // namespace quire::test
