// What a faster form of the arithmetic costs: the mean Kullback-Leibler divergence of the logits
// from those of level `ref` in float32 on the same checkpoint, and the perplexity, both on one
// committed text. Every row is printed.
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "load/model_bundle.h"
#include "support/distribution.h"
#include "support/score.h"
#include "support/test_models.h"

namespace quire::test {
namespace {

// What is scored, and how far it may be from the reference.
struct Case {
  std::string name;
  std::string model;
  std::size_t positions = 256;
  LoadQuantization quantization = LoadQuantization::kNone;
  double divergence = 0;  // at most, with the default arithmetic
  // The same at levels with a dot product of bytes, where inputs of 8-bit weights have 8 bits.
  std::optional<double> byte_divergence = {};
  double perplexity = 0;  // at most, as a relative difference
  bool scalar = true;     // also with level ref, which takes its time
};

std::vector<TokenId> text_tokens(const Case& test) {
  const auto text = read_file(QUIRE_SOURCE_DIR "/tests/data/quality/text.txt", 1U << 16);
  const auto bundle = open_text(test.model);
  EXPECT_TRUE(text.ok() && bundle.ok());
  auto tokens = bundle->tokenizer->encode(*text, {.add_special_tokens = true}).value();
  EXPECT_GE(tokens.size(), test.positions);
  tokens.resize(test.positions);
  return tokens;
}

std::optional<Distribution> score(const Case& test, IsaLevel level, ActivationMode mode,
                                  DType kv_dtype, LoadQuantization quantization,
                                  const std::vector<TokenId>& tokens) {
  auto scorer = Scorer::open(test.model, level, mode, kv_dtype,
                             static_cast<std::int64_t>(test.positions), quantization);
  EXPECT_TRUE(scorer.ok()) << scorer.status().to_string();
  if (!scorer.ok()) return std::nullopt;
  return distribution(**scorer, tokens);
}

std::string tiny(const std::string& encoding) {
  return tiny_llama("tiny_llama_" + encoding + ".gguf");
}

std::vector<Case> cases() {
  using enum LoadQuantization;
  return {
      {.name = "stories260k_f32", .model = stories260k(), .divergence = 1e-4, .perplexity = 1e-3},
      {.name = "stories260k_int8",
       .model = stories260k(),
       .quantization = kInt8,
       .divergence = 2e-3,
       .perplexity = 0.01},
      {.name = "stories260k_int4",
       .model = stories260k(),
       .quantization = kInt4,
       .divergence = 0.15,  // 260,000 weights have little to spare
       .perplexity = 0.1},
      {.name = "smollm2_q4_1",
       .model = smollm2(),
       .positions = 128,
       .divergence = 1e-3,
       .perplexity = 0.01,
       .scalar = false},
      {.name = "tiny_bf16", .model = tiny_llama("hf"), .divergence = 1e-3, .perplexity = 0.01},
      {.name = "tiny_q8_0",
       .model = tiny("q8_0"),
       .divergence = 1e-3,
       .byte_divergence = 2e-3,
       .perplexity = 0.01},
      {.name = "tiny_q4_0", .model = tiny("q4_0"), .divergence = 1e-3, .perplexity = 0.01},
      {.name = "tiny_q4_1", .model = tiny("q4_1"), .divergence = 1e-3, .perplexity = 0.01},
      {.name = "tiny_q5_0", .model = tiny("q5_0"), .divergence = 1e-3, .perplexity = 0.01},
      {.name = "tiny_q5_1", .model = tiny("q5_1"), .divergence = 1e-3, .perplexity = 0.01},
      {.name = "tiny_k_quants",
       .model = tiny_encodings("tiny_kquants"),
       .positions = 42,  // its tokenizer makes no more of the text
       .divergence = 1e-3,
       .perplexity = 0.01},
      {.name = "tiny_compact",
       .model = tiny_encodings("tiny_compact"),
       .positions = 42,
       .divergence = 1e-3,
       .byte_divergence = 4e-3,
       .perplexity = 0.01},
  };
}

class Quality : public testing::TestWithParam<Case> {};

TEST_P(Quality, StaysNearTheReference) {
  const Case& test = GetParam();
  QUIRE_REQUIRE_FILE(test.model);
  const std::vector<TokenId> tokens = text_tokens(test);
  const auto exact = score(test, IsaLevel::kRef, ActivationMode::kFloat32, DType::kF32,
                           LoadQuantization::kNone, tokens);
  ASSERT_TRUE(exact);
  fmt::print("{:<18}{:<18}{:<10}{:>12}{:>14.4f}\n", test.name, "ref", "float32", "0",
             exact->perplexity);
  struct Arithmetic {
    std::string_view name;
    ActivationMode mode;
    DType kv_dtype;
    bool exact;
  };
  constexpr Arithmetic kArithmetics[] = {
      {"default", ActivationMode::kInt16, DType::kBF16, false},
      {"float32", ActivationMode::kFloat32, DType::kF32, true},
  };
  const bool same_weights = test.quantization == LoadQuantization::kNone;
  for (const IsaLevel level : available_levels()) {
    if (level == IsaLevel::kRef && !test.scalar) continue;
    const bool bytes = level >= IsaLevel::kAvx512VnniBf16;
    const double most = bytes ? test.byte_divergence.value_or(test.divergence) : test.divergence;
    for (const Arithmetic& arithmetic : kArithmetics) {
      if (level == IsaLevel::kRef && arithmetic.exact && same_weights) continue;  // it itself
      const auto got =
          score(test, level, arithmetic.mode, arithmetic.kv_dtype, test.quantization, tokens);
      ASSERT_TRUE(got);
      const double divergence = mean_divergence(*exact, *got);
      fmt::print("{:<18}{:<18}{:<10}{:>12.3g}{:>14.4f}\n", test.name, isa_level_name(level),
                 arithmetic.name, divergence, got->perplexity);
      // In float32 on the same weights nothing but the order of additions differs.
      const bool rounding_alone = arithmetic.exact && same_weights;
      EXPECT_LE(divergence, rounding_alone ? 1e-7 : most) << isa_level_name(level);
      EXPECT_GE(divergence, -1e-9) << isa_level_name(level);
      EXPECT_NEAR(got->perplexity / exact->perplexity, 1.0, rounding_alone ? 1e-4 : test.perplexity)
          << isa_level_name(level);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Quality, testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace quire::test
