// Real and tiny checkpoints against the reference implementation (transformers, float32). The
// goldens are made by scripts/make_goldens.sh.
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "support/score.h"
#include "support/test_models.h"

namespace quire::test {
namespace {

json::value golden(const std::string& path) {
  auto value = read_json_file(QUIRE_SOURCE_DIR "/tests/data/" + path, 1U << 24);
  EXPECT_TRUE(value.ok()) << value.status().to_string();
  return value.ok() ? *std::move(value) : json::value();
}

std::vector<float> golden_floats(const std::string& path) {
  const auto bytes = read_file(QUIRE_SOURCE_DIR "/tests/data/" + path, 1U << 24);
  EXPECT_TRUE(bytes.ok()) << bytes.status().to_string();
  std::vector<float> values(bytes.ok() ? bytes->size() / sizeof(float) : 0);
  if (bytes.ok()) std::memcpy(values.data(), bytes->data(), values.size() * sizeof(float));
  return values;
}

std::vector<TokenId> ids(const json::value& array) {
  std::vector<TokenId> result;
  for (const json::value& id : array.as_array()) {
    result.push_back(static_cast<TokenId>(id.as_int64()));
  }
  return result;
}

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  float largest = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    largest = std::max(largest, std::fabs(a[i] - b[i]));
    if (std::isnan(a[i])) return INFINITY;
  }
  return largest;
}

class Reference : public ::testing::TestWithParam<IsaLevel> {
 protected:
  void SetUp() override {
    const auto levels = available_levels();
    if (std::find(levels.begin(), levels.end(), GetParam()) == levels.end()) {
      GTEST_SKIP() << "this processor has no " << isa_level_name(GetParam());
    }
  }
};

TEST_P(Reference, Stories260kLogitsWithin1e4) {
  QUIRE_REQUIRE_FILE(stories260k());
  auto scorer = Scorer::open(stories260k(), GetParam(), ActivationMode::kFloat32, DType::kF32, 512);
  ASSERT_TRUE(scorer.ok()) << scorer.status().to_string();
  const json::value tokens = golden("stories260k/tokens.json");
  const auto logits = (*scorer)->score(ids(tokens.at("prompt_token_ids")), 0);
  const float difference = largest_difference(logits, golden_floats("stories260k/logits.bin"));
  RecordProperty("largest_difference", std::to_string(difference));
  EXPECT_LE(difference, 1e-4F);
}

// Every encoding, every file format: the weights decode to the same floats as the reference's, so
// in float32 the logits agree.
TEST_P(Reference, TinyLlamaLogitsWithin1e4) {
  const json::value goldens = golden("tiny_llama/goldens.json");
  const auto prompt = ids(goldens.at("prompt_token_ids"));
  json::array files = goldens.at("files").as_array();
  files.push_back({{"file", "hf"}, {"logits", "logits_full.bin"}, {"num_tokens", 96}});
  for (const json::value& file : files) {
    const std::string name(file.at("file").as_string());
    auto scorer =
        Scorer::open(tiny_llama(name), GetParam(), ActivationMode::kFloat32, DType::kF32, 128);
    ASSERT_TRUE(scorer.ok()) << scorer.status().to_string();
    const auto count = static_cast<std::size_t>(file.at("num_tokens").as_int64());
    const auto logits = (*scorer)->score({prompt.begin(), prompt.begin() + count}, 0);
    const auto expected = golden_floats("tiny_llama/" + std::string(file.at("logits").as_string()));
    EXPECT_LE(largest_difference(logits, expected), 1e-4F) << name;
  }
}

// With activations rounded to int8 groups the logits of the quantized files stay close.
TEST_P(Reference, TinyLlamaQuantizedActivationsStayClose) {
  const json::value goldens = golden("tiny_llama/goldens.json");
  const auto prompt = ids(goldens.at("prompt_token_ids"));
  for (const std::string encoding : {"q8_0", "q4_0", "q4_1"}) {
    auto scorer = Scorer::open(tiny_llama("tiny_llama_" + encoding + ".gguf"), GetParam(),
                               ActivationMode::kInt8, DType::kBF16, 128);
    ASSERT_TRUE(scorer.ok()) << scorer.status().to_string();
    const auto logits = (*scorer)->score({prompt.begin(), prompt.begin() + 32}, 0);
    const auto expected = golden_floats("tiny_llama/logits_" + encoding + ".bin");
    EXPECT_LE(largest_difference(logits, expected), 0.2F) << encoding;
  }
}

struct TeacherForced {
  std::int64_t positions = 0;
  std::int64_t differing = 0;  // best token is not the reference's
  double largest_gap = 0;      // of the reference's two best, where it differs
  double nll = 0;              // sums over positions
  double reference_nll = 0;
};

void compare(Scorer& scorer, const json::value& prompt, TeacherForced& result) {
  std::vector<TokenId> tokens = ids(prompt.at("prompt_token_ids"));
  const auto first = static_cast<std::int64_t>(tokens.size()) - 1;
  const auto reference = ids(prompt.at("tokens"));
  tokens.insert(tokens.end(), reference.begin(), reference.end() - 1);
  const auto logits = scorer.score(tokens, first);
  const std::int64_t vocab = scorer.vocab_size();
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const float* row = logits.data() + static_cast<std::int64_t>(i) * vocab;
    const float* best = std::max_element(row, row + vocab);
    double sum = 0;
    for (std::int64_t t = 0; t < vocab; ++t) sum += std::exp(static_cast<double>(row[t] - *best));
    result.nll -= row[reference[i]] - (*best + std::log(sum));
    result.reference_nll -= prompt.at("logprob").at(i).to_number<double>();
    ++result.positions;
    if (best - row == reference[i]) continue;
    ++result.differing;
    result.largest_gap =
        std::max(result.largest_gap, prompt.at("logit_best").at(i).to_number<double>() -
                                         prompt.at("logit_second").at(i).to_number<double>());
  }
}

void check_smollm2(IsaLevel level, ActivationMode mode, DType kv_dtype, double allowed_gap,
                   double allowed_nll) {
  QUIRE_REQUIRE_FILE(smollm2());
  auto scorer = Scorer::open(smollm2(), level, mode, kv_dtype, 512);
  ASSERT_TRUE(scorer.ok()) << scorer.status().to_string();
  const json::value goldens = golden("smollm2/greedy.json");
  // The scalar level is some hundred times slower: two short prompts show that it is right.
  const std::size_t count = level == IsaLevel::kRef ? 2 : 40;
  TeacherForced result;
  for (std::size_t i = 0; i < count; ++i) compare(**scorer, goldens.at("prompts").at(i), result);
  const double nll = result.nll / static_cast<double>(result.positions);
  const double reference_nll = result.reference_nll / static_cast<double>(result.positions);
  std::printf(
      "%s: %lld of %lld best tokens differ (largest gap %.4f), mean NLL %.6f, reference "
      "%.6f (%.3f%%)\n",
      std::string(isa_level_name(level)).c_str(), static_cast<long long>(result.differing),
      static_cast<long long>(result.positions), result.largest_gap, nll, reference_nll,
      (nll / reference_nll - 1) * 100);
  EXPECT_LE(result.largest_gap, allowed_gap);
  // A mean over 128 positions wanders more than one over 2,560.
  EXPECT_NEAR(nll / reference_nll, 1.0, level == IsaLevel::kRef ? 2 * allowed_nll : allowed_nll);
}

// With float32 activations and cache only the order of additions differs from the reference.
TEST_P(Reference, SmolLm2InFloat32) {
  check_smollm2(GetParam(), ActivationMode::kFloat32, DType::kF32, 0.002, 1e-4);
}

// The default arithmetic of quantized weights: int8 activations, bfloat16 cache.
TEST_P(Reference, SmolLm2InDefaultArithmetic) {
  check_smollm2(GetParam(), ActivationMode::kInt8, DType::kBF16, 0.25, 0.005);
}

INSTANTIATE_TEST_SUITE_P(Levels, Reference,
                         ::testing::Values(IsaLevel::kRef, IsaLevel::kAvx2, IsaLevel::kAvx512),
                         [](const auto& level) {
                           return std::string(isa_level_name(level.param));
                         });

}  // namespace
}  // namespace quire::test
