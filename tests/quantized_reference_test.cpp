// A tiny checkpoint in each way that safetensors are quantized against the reference
// implementation, which runs over the weights that the codes stand for. The goldens are made by
// scripts/make_goldens.sh quantized.
#include <algorithm>
#include <filesystem>
#include <optional>

#include <gtest/gtest.h>

#include "kernels/sizing.h"
#include "load/model_bundle.h"
#include "load/model_facts.h"
#include "plan/weight_plan.h"
#include "quant/codebook_groups.h"
#include "quant/grouped_tensor.h"
#include "quant/hqq_block.h"
#include "support/golden.h"
#include "support/score.h"
#include "support/test_models.h"

namespace quire::test {
namespace {

class QuantizedReference : public ::testing::TestWithParam<IsaLevel> {
 protected:
  void SetUp() override {
    const auto levels = available_levels();
    if (std::find(levels.begin(), levels.end(), GetParam()) == levels.end()) {
      GTEST_SKIP() << "this processor has no " << isa_level_name(GetParam());
    }
  }

  // The largest difference to the reference's logits of the prompt; `suffix`: of another file. None
  // where a GPU has no kernels for its weights.
  static std::optional<float> difference(std::string_view kind, ActivationMode mode, DType kv_dtype,
                                         std::string_view suffix = "") {
    const auto prompt = token_ids(golden("quantized/goldens.json").at("prompt_token_ids"));
    auto scorer =
        Scorer::open(quantized_model(kind) + std::string(suffix), GetParam(), mode, kv_dtype, 32);
    if (scores_on_gpu() && scorer.status().code() == StatusCode::kUnimplemented) return {};
    EXPECT_TRUE(scorer.ok()) << kind << ": " << scorer.status().to_string();
    if (!scorer.ok()) return INFINITY;
    return largest_difference((*scorer)->score(prompt, 0),
                              golden_floats("quantized/" + std::string(kind) + "/logits.bin"));
  }
};

// The weights decode to the same floats as the reference's, so in float32 the logits agree.
TEST_P(QuantizedReference, LogitsWithin1e4) {
  for (const std::string_view kind : kQuantizedKinds) {
    EXPECT_LE(difference(kind, ActivationMode::kFloat32, DType::kF32).value_or(0), 1e-4F) << kind;
  }
}

// Whose experts the converter puts into blocks of another order.
TEST_P(QuantizedReference, GgufOfMxfp4ExpertsWithin1e4) {
  EXPECT_LE(difference("mxfp4_gpt_oss", ActivationMode::kFloat32, DType::kF32, ".gguf").value_or(0),
            1e-4F);
}

// The arithmetic that they get by default: inputs rounded to integers.
TEST_P(QuantizedReference, LogitsWithRoundedInputsStayClose) {
  for (const std::string_view kind : kQuantizedKinds) {
    const auto found = difference(kind, ActivationMode::kInt16, DType::kBF16);
    if (!found) continue;
    EXPECT_LE(*found, 0.3F) << kind;
    EXPECT_GT(*found, 0.0F) << kind << ": nothing was rounded";
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, QuantizedReference, ::testing::ValuesIn(kIsaLevels),
                         [](const auto& level) {
                           return std::string(isa_level_name(level.param));
                         });

TEST(QuantizedPlan, IsWhatIsLoaded) {
  for (const std::string_view kind : kQuantizedKinds) {
    auto bundle = open_model(quantized_model(kind), "");
    ASSERT_TRUE(bundle.ok()) << kind << ": " << bundle.status().to_string();
    auto scorer = Scorer::open(quantized_model(kind), available_levels().back(),
                               ActivationMode::kInt16, DType::kBF16, 64);
    if (scores_on_gpu() && scorer.status().code() == StatusCode::kUnimplemented) continue;
    ASSERT_TRUE(scorer.ok()) << scorer.status().to_string();
    EXPECT_EQ(planned_weight_bytes(bundle->spec, *bundle->weights, 64),
              (*scorer)->model().weight_bytes())
        << kind;
  }
}

// A matrix of a usual size takes what its tensors take.
TEST(QuantizedSize, ResidentIsTheFilesWithinThreePercent) {
  constexpr std::int64_t kSize = 4096;
  const auto ratio_of = [](Encoding encoding, std::int64_t size, std::uint64_t file_bytes) {
    return static_cast<double>(packed_weight_bytes(encoding, size, size, LoadQuantization::kNone,
                                                   /*vocabulary=*/false)) /
           static_cast<double>(file_bytes);
  };
  const auto ratio = [&](Encoding encoding, std::uint64_t file_bytes) {
    return ratio_of(encoding, kSize, file_bytes);
  };
  constexpr std::uint64_t kWeights = kSize * kSize;
  for (const std::uint64_t bits : {2U, 3U, 4U, 8U}) {
    for (const std::uint64_t span : {32U, 64U, 128U, 256U, 4096U}) {
      // Codes, scales, zero points and the group of each input, as GPTQ writes them.
      const std::uint64_t bytes =
          kWeights * bits / 8 + kWeights / span * 2 + kWeights / span * bits / 8 + kSize * 4;
      GroupedTensor matrix;
      matrix.cols = kSize;
      matrix.span = static_cast<std::int64_t>(span);
      matrix.has_zeros = true;
      matrix.codes.bits = static_cast<int>(bits);
      // Codes of 2 and 3 bits repeat the scale of a row for each 256 inputs.
      const double limit = bits == 2 && span == kSize ? 1.05 : 1.03;
      EXPECT_LE(ratio(rows_encoding(matrix), bytes), limit) << bits << " bits, groups of " << span;
      EXPECT_GE(ratio(rows_encoding(matrix), bytes), 0.99) << bits << " bits, groups of " << span;
    }
  }
  for (const std::uint64_t bits : {4U, 8U}) {
    for (const std::uint64_t span : {32U, 64U, 128U, 256U, 4096U}) {
      // Codes and scales, as compressed-tensors writes symmetric ones.
      const std::uint64_t bytes = kWeights * bits / 8 + kWeights / span * 2;
      GroupedTensor matrix;
      matrix.cols = kSize;
      matrix.span = static_cast<std::int64_t>(span);
      matrix.codes.bits = static_cast<int>(bits);
      matrix.is_signed = bits == 8;
      const double found = ratio(rows_encoding(matrix), bytes);
      EXPECT_LE(found, 1.03) << bits << " bits, groups of " << span << ", symmetric";
      EXPECT_GE(found, 1.0) << bits << " bits, groups of " << span << ", symmetric";
    }
  }
  for (std::uint64_t block = 64; block <= 4096; block *= 2) {
    // Codes and a scale for each block: a float, or a byte and a float for 256 of them.
    const auto span = static_cast<std::int64_t>(std::min<std::uint64_t>(block, 256));
    const std::uint64_t plain = kWeights / 2 + kWeights / block * 4;
    const std::uint64_t nested = kWeights / 2 + kWeights / block + kWeights / block / 256 * 4;
    for (const Codebook codebook : {Codebook::kNF4, Codebook::kFP4}) {
      for (const auto& [bytes, is_nested] : {std::pair(plain, false), std::pair(nested, true)}) {
        const double found = ratio(codebook_encoding(codebook, is_nested, span), bytes);
        EXPECT_LE(found, 1.03) << "blocks of " << block << (is_nested ? ", nested" : "");
        EXPECT_GE(found, 1.0) << "blocks of " << block << (is_nested ? ", nested" : "");
      }
    }
  }
  for (const std::int64_t size : {576, 640, 896, 2048}) {  // of small models
    const auto blocks = static_cast<std::uint64_t>(size * size / 64);
    const double found = ratio_of(codebook_encoding(Codebook::kNF4, /*nested=*/true, 64), size,
                                  blocks * 33 + (blocks + 255) / 256 * 4);
    EXPECT_LE(found, 1.005) << size << " inputs, nested";
    EXPECT_GE(found, 1.0) << size << " inputs, nested";
  }
  for (const int bits : {2, 3, 4, 8}) {
    for (const std::int64_t span : {32, 64, 128, 256}) {
      // Words of ten codes of 3 bits, bytes of the others; a scale and a zero point for each group.
      const std::uint64_t codes =
          bits == 3 ? kWeights / 10 * 4 : kWeights * static_cast<std::uint64_t>(bits) / 8;
      const std::uint64_t bytes = codes + kWeights / static_cast<std::uint64_t>(span) * 4;
      const double found = ratio(hqq_encoding(bits, span, kSize), bytes);
      EXPECT_LE(found, 1.03) << bits << " bits, groups of " << span;
      EXPECT_GE(found, bits == 3 ? 0.9 : 1.0) << bits << " bits, groups of " << span;
    }
  }
  EXPECT_LE(ratio(Encoding::kInt8Row, kWeights + kSize * 4), 1.001);
  EXPECT_LE(ratio(Encoding::kF8Row, kWeights + kSize * 4), 1.001);
  EXPECT_LE(ratio(Encoding::kF8Block128, kWeights + kWeights / (128 * 128) * 4), 1.01);
}

TEST(QuantizedFacts, NameTheFormat) {
  const auto bundle = open_model(quantized_model("gptq_v2_w4_g64_asym"), "");
  ASSERT_TRUE(bundle.ok()) << bundle.status().to_string();
  std::vector<std::string> names;
  std::uint64_t bytes = 0;
  for (const EncodingTotal& total : model_facts(*bundle).encodings) {
    names.push_back(total.encoding);
    bytes += total.bytes;
  }
  // Rows of 64 inputs are one group each.
  EXPECT_EQ(names, (std::vector<std::string>{"BF16", "gptq int4, groups of 64",
                                             "gptq int4, one scale a row"}));
  std::uint64_t in_files = 0;
  for (const MappedFile* file : bundle->weights->files()) in_files += file->bytes().size();
  EXPECT_GT(bytes, in_files * 9 / 10);  // all but the headers
  EXPECT_LT(bytes, in_files);
}

}  // namespace
}  // namespace quire::test
