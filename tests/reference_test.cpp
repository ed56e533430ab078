// Real and tiny checkpoints against the reference implementation (transformers, float32). The
// goldens are made by scripts/make_goldens.sh.
#include <gtest/gtest.h>

#include "base/json.h"
#include "engine/api.h"
#include "support/collector.h"
#include "support/golden.h"
#include "support/score.h"
#include "support/teacher_forced.h"
#include "support/test_models.h"

namespace quire::test {
namespace {

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
  const auto logits = (*scorer)->score(token_ids(tokens.at("prompt_token_ids")), 0);
  const float difference = largest_difference(logits, golden_floats("stories260k/logits.bin"));
  RecordProperty("largest_difference", std::to_string(difference));
  EXPECT_LE(difference, 1e-4F);
}

// Every encoding, every file format: the weights decode to the same floats as the reference's, so
// in float32 the logits agree.
TEST_P(Reference, TinyLlamaLogitsWithin1e4) {
  const json::value goldens = golden("tiny_llama/goldens.json");
  const auto prompt = token_ids(goldens.at("prompt_token_ids"));
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
  const auto prompt = token_ids(goldens.at("prompt_token_ids"));
  for (const std::string encoding : {"q8_0", "q4_0", "q4_1", "q5_0", "q5_1"}) {
    auto scorer = Scorer::open(tiny_llama("tiny_llama_" + encoding + ".gguf"), GetParam(),
                               ActivationMode::kInt16, DType::kBF16, 128);
    ASSERT_TRUE(scorer.ok()) << scorer.status().to_string();
    const auto logits = (*scorer)->score({prompt.begin(), prompt.begin() + 32}, 0);
    const auto expected = golden_floats("tiny_llama/logits_" + encoding + ".bin");
    // Inputs of 8-bit weights have 8 bits at levels with a dot product of bytes.
    const bool bytes = encoding == "q8_0" && GetParam() >= IsaLevel::kAvx512VnniBf16;
    EXPECT_LE(largest_difference(logits, expected), bytes ? 0.5F : 0.2F) << encoding;
  }
}

void check_smollm2(IsaLevel level, ActivationMode mode, DType kv_dtype, double allowed_gap,
                   double allowed_nll) {
  QUIRE_REQUIRE_FILE(smollm2());
  // A mean over the 128 positions of the scalar level wanders more than one over 2,560.
  const bool scalar = level == IsaLevel::kRef;
  check_teacher_forced({.model = smollm2(),
                        .goldens = golden("smollm2/greedy.json"),
                        .level = level,
                        .mode = mode,
                        .kv_dtype = kv_dtype,
                        .num_prompts = num_prompts_at(level)},
                       allowed_gap, scalar ? 2 * allowed_nll : allowed_nll);
}

// With float32 activations and cache only the order of additions differs from the reference.
TEST_P(Reference, SmolLm2InFloat32) {
  check_smollm2(GetParam(), ActivationMode::kFloat32, DType::kF32, 0.002, 1e-4);
}

// The default arithmetic of quantized weights: 16-bit activations, bfloat16 cache.
TEST_P(Reference, SmolLm2InDefaultArithmetic) {
  check_smollm2(GetParam(), ActivationMode::kInt16, DType::kBF16, 0.25, 0.005);
}

// Smaller caches: most tokens stay, single positions move far (docs/performance.md). Not at the
// scalar level, whose caches hold the same numbers and which takes a minute for each.
TEST_P(Reference, SmolLm2WithAnInt8Cache) {
  if (GetParam() == IsaLevel::kRef) GTEST_SKIP() << "the other levels show it";
  check_smollm2(GetParam(), ActivationMode::kInt16, DType::kI8, 1.25, 0.006);
}

TEST_P(Reference, SmolLm2WithAnFp8Cache) {
  if (GetParam() == IsaLevel::kRef) GTEST_SKIP() << "the other levels show it";
  check_smollm2(GetParam(), ActivationMode::kInt16, DType::kF8E4M3, 1.5, 0.025);
}

INSTANTIATE_TEST_SUITE_P(Levels, Reference, ::testing::ValuesIn(kIsaLevels), [](const auto& level) {
  return std::string(isa_level_name(level.param));
});

// Free-running greedy text agrees with the reference's up to the first position where its two best
// logits are close.
TEST(FreeRunning, SmolLm2FollowsTheReference) {
  QUIRE_REQUIRE_FILE(smollm2());
  const auto goldens = read_json_file(QUIRE_SOURCE_DIR "/tests/data/smollm2/greedy.json", 1U << 24);
  ASSERT_TRUE(goldens.ok()) << goldens.status().to_string();
  const json::array& prompts = goldens->at("prompts").as_array();
  EngineArgs args;
  args.model = smollm2();
  args.max_num_seqs = 40;
  args.max_model_len = 512;
  auto engine = Engine::create(args, {});
  ASSERT_TRUE(engine.ok()) << engine.status().to_string();
  Collector collector(prompts.size());
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    GenerateRequest request;
    for (const json::value& id : prompts[i].at("prompt_token_ids").as_array()) {
      request.prompt_token_ids.push_back(static_cast<TokenId>(id.as_int64()));
    }
    request.params.temperature = 0;
    request.params.max_tokens = 64;
    request.params.ignore_eos = true;
    ASSERT_TRUE((*engine)->submit(std::move(request), collector.sink(i)).ok());
  }
  collector.wait_for(prompts.size());
  const auto outputs = collector.take();
  int equal = 0;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const json::array& reference = prompts[i].at("tokens").as_array();
    std::size_t at = 0;
    while (at < 64 && outputs[i].at(0).token_ids[at] == reference[at].as_int64()) ++at;
    if (at == 64) {
      ++equal;
      continue;
    }
    const double gap = prompts[i].at("logit_best").at(at).to_number<double>() -
                       prompts[i].at("logit_second").at(at).to_number<double>();
    EXPECT_LE(gap, 0.25) << prompts[i].at("name").as_string() << " differs at " << at;
  }
  std::printf("%d of %zu texts equal the reference's, all 64 tokens\n", equal, prompts.size());
}

}  // namespace
}  // namespace quire::test
