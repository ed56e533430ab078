// The configuration matrix: one greedy corpus under every setting that must not change a token.
// Within a level, tokens and log probabilities are compared bit for bit.
#include <algorithm>
#include <memory>
#include <optional>

#include <gtest/gtest.h>

#include "engine/api.h"
#include "engine/compute_device.h"
#include "support/matrix_run.h"
#include "support/matrix_settings.h"
#include "support/test_models.h"

namespace quire::test {
namespace {

TEST(Matrix, Stories260k) {
  QUIRE_REQUIRE_FILE(stories260k());
  Corpus corpus = {.model = stories260k(), .prompts = {}};
  for (int i = 0; i < 16; ++i) {
    std::string prompt = i % 2 == 0 ? "Once upon a time" : "Tom and Lily went to the park";
    for (int j = 0; j < i; ++j) prompt += j % 3 == 0 ? ", there was a cat" : " and a red ball";
    corpus.prompts.push_back(std::move(prompt));
  }
  corpus.max_model_len = 256;
  check_matrix(corpus, all_settings());
}

std::vector<std::string> longer_and_longer(int count) {
  std::vector<std::string> prompts;
  for (int i = 0; i < count; ++i) {
    prompts.push_back(std::string(static_cast<std::size_t>(1 + 4 * i), 'a') + " the cat");
  }
  return prompts;
}

void check_tiny_llama(const std::string& model, bool everywhere) {
  Corpus corpus = {.model = model, .prompts = longer_and_longer(16), .everywhere = everywhere};
  corpus.max_tokens = 48;
  check_matrix(corpus, all_settings());
}

std::shared_ptr<const StructuredOutputsParams> constraint_of(
    std::optional<std::string> StructuredOutputsParams::*kind, const std::string& text) {
  StructuredOutputsParams params;
  params.*kind = text;
  return std::make_shared<const StructuredOutputsParams>(params);
}

// Texts that are held to a grammar beside others that are not; some end before the last token.
TEST(Matrix, TinyLlamaUnderConstraints) {
  Corpus corpus = {.model = tiny_llama("tiny_llama_bf16.gguf"), .prompts = longer_and_longer(16)};
  corpus.max_tokens = 48;
  corpus.constraints = {
      constraint_of(&StructuredOutputsParams::regex, "([a-z]{2,7}, )*[a-z]+\\."), nullptr,
      constraint_of(&StructuredOutputsParams::grammar,
                    "root ::= item+\nitem ::= \"[\" item* \"]\" | [0-9]+ \";\""),
      constraint_of(
          &StructuredOutputsParams::regex,
          "(yes|no), said the dog on the sea\\. The (cat|fox) sells [0-9]+ pages, [a-z]+"),
      // Reasoning whose end is forced, then calls.
      constraint_of(&StructuredOutputsParams::structural_tag, R"({"type": "answer",
          "reasoning": "qwen3", "start": "open", "thinking_budget": 6, "calls": {
          "dialect": "hermes", "required": true, "parallel": true, "functions": [{"name": "get",
          "parameters": {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}},
          "required": ["city"]}}]}})")};
  std::vector<Setting> settings = all_settings();
  settings.push_back({.name = "batch, one by one", .jump_forward = false});
  check_matrix(corpus, settings);
}

// Text that a grammar forces is not guessed where layers keep a state, but computed.
TEST(Matrix, StatesUnderConstraints) {
  Corpus corpus = {
      .model = family_model("lfm2", "hf"), .prompts = longer_and_longer(6), .states = true};
  corpus.max_tokens = 24;
  const char* const forced = "((yes|no), said the dog on the sea\\. ){20}";
  corpus.constraints = {constraint_of(&StructuredOutputsParams::regex, forced), nullptr};
  check_matrix(corpus, {{.name = "batch", .block_size = 4, .chunk = 16, .joined = true}});
}

// Each type of KV cache, and sequences of more than one range of keys (256), so that threads share
// the keys of a decoded token; four of them begin with the same blocks, which are read once for
// all.
class KvCacheMatrix : public ::testing::TestWithParam<const char*> {};

TEST_P(KvCacheMatrix, SameTokens) {
  QUIRE_REQUIRE_FILE(stories260k());
  Corpus corpus = {.model = stories260k(), .prompts = {}};
  corpus.kv_cache_dtype = GetParam();
  const auto add = [&](int repeats, std::string_view end) {
    std::string prompt = "Once upon a time";
    for (int i = 0; i < repeats; ++i) prompt += " there was a big red ball and a cat";
    corpus.prompts.push_back(prompt.append(end));
  };
  for (const int repeats : {0, 3, 28, 1, 9}) add(repeats, "");
  for (const char* end : {" and a dog", ", and Tom", " who ran"}) add(28, end);
  corpus.max_tokens = 8;
  corpus.max_model_len = 400;
  std::vector<Setting> settings = all_settings();
  std::erase_if(settings, [](const Setting& setting) { return setting.preempt; });
  // The first long prompt takes many steps; the others find its blocks, and decode beside it.
  for (Setting& setting : settings) {
    if (setting.name == "batch, chunk 16, deadline") setting.shared_tokens = 3 * 256;
  }
  check_matrix(corpus, settings);
}

INSTANTIATE_TEST_SUITE_P(Types, KvCacheMatrix,
                         ::testing::Values("float32", "bfloat16", "fp8", "int8"),
                         [](const auto& param) { return std::string(param.param); });

TEST(Matrix, TinyLlamaOfQuantizedWeights) {
  check_tiny_llama(tiny_llama("tiny_llama_q4_0.gguf"), false);
}

TEST(Matrix, TinyLlamaOfBfloat16) { check_tiny_llama(tiny_llama("tiny_llama_bf16.gguf"), true); }

// All compact encodings. The tokenizer knows few characters.
TEST(Matrix, TinyLlamaOfCompactWeights) {
  const auto device = choose_device(EngineArgs().device);
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  if (device->gpu) GTEST_SKIP() << "GPUs have no kernels for them";
  Corpus corpus = {.model = tiny_encodings("tiny_compact"), .prompts = {}};
  for (int i = 0; i < 16; ++i) {
    corpus.prompts.push_back(std::string(static_cast<std::size_t>(1 + 4 * i), 'A') + "BCAB");
  }
  corpus.max_tokens = 48;
  check_matrix(corpus, all_settings());
}

// Windows, norms of heads and outputs, biases and several rope bases change nothing either. Prompts
// shorter and longer than the windows, which are 16 to 20 tokens.
void check_small(Corpus corpus) {
  for (int i = 0; i < 12; ++i) {
    std::string prompt = i % 2 == 0 ? "the cat" : "she sells";
    for (int j = 0; j < i; ++j) prompt += j % 3 == 0 ? " sea shells" : " and the dog";
    corpus.prompts.push_back(std::move(prompt));
  }
  corpus.max_tokens = 24;
  check_matrix(corpus, all_settings());
}

class FamilyMatrix : public ::testing::TestWithParam<std::string_view> {};

TEST_P(FamilyMatrix, SameTokens) {
  check_small({.model = family_model(GetParam(), "hf"), .states = keeps_states(GetParam())});
}

// Layers of two devices, and experts that lie with the other one.
TEST(Matrix, LayersOfTwoDevices) {
  check_small({.model = family_model("llama", "hf"), .n_gpu_layers = 2});
  check_small({.model = family_model("gemma3", "hf"), .n_gpu_layers = 2});
  check_small({.model = family_model("lfm2", "hf"), .states = true, .n_gpu_layers = 2});
  check_small({.model = family_model("qwen3_moe", "hf"), .n_cpu_moe = 1});
  check_small({.model = family_model("deepseek_v3", "hf"), .n_gpu_layers = 2, .n_cpu_moe = 9});
}

// What drafts from the model's states: MTP, EAGLE, EAGLE-3, and Medusa's heads, which guess trees.
class DraftMatrix : public ::testing::TestWithParam<const char*> {};

TEST_P(DraftMatrix, SameTokens) {
  const std::string method = GetParam();
  Corpus corpus = {.model = family_model(method == "mtp" ? "glm4_moe_mtp" : "llama", "hf"),
                   .prompts = longer_and_longer(12)};
  corpus.drafter = family_model("llama_" + method, "hf");
  corpus.max_tokens = 40;
  const std::string config =
      R"({"method": ")" + method + R"(", )" + (method == "mtp" ? "" : R"("model": "m", )");
  std::vector<Setting> settings = settings_that_draft(config + R"("num_speculative_tokens": 8})");
  for (Setting& setting : settings) {
    if (setting.drafts.value_or(0) < 5) continue;  // these guess trees
    setting.speculation = config + R"("speculative_token_tree":
        "[(0,), (0, 0), (1,), (0, 0, 0), (0, 1), (2,), (0, 0, 1), (0, 0, 0, 0)]"})";
  }
  check_matrix(corpus, settings);
}

INSTANTIATE_TEST_SUITE_P(Methods, DraftMatrix,
                         ::testing::Values("mtp", "eagle", "eagle3", "medusa"),
                         [](const auto& param) { return std::string(param.param); });

// In GGUF they come in other tensors: the two parts of what latents are made into, experts with
// their biases.
TEST(Matrix, LatentAttentionAndExpertsOfGguf) {
  for (const std::string_view family : {"deepseek_v3", "gpt_oss"}) {
    check_small({.model = family_model(family, "model.gguf")});
  }
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyMatrix, ::testing::ValuesIn(kFamilies),
                         [](const auto& param) { return std::string(param.param); });

// Integer codes with zero points, from tensors that lie apart.
class QuantizedMatrix : public ::testing::TestWithParam<std::string_view> {};

TEST_P(QuantizedMatrix, SameTokens) { check_small({.model = quantized_model(GetParam())}); }

INSTANTIATE_TEST_SUITE_P(Kinds, QuantizedMatrix, ::testing::ValuesIn(kQuantizedKinds),
                         [](const auto& param) { return std::string(param.param); });

TEST(Matrix, SmolLm2) {
  QUIRE_REQUIRE_FILE(smollm2());
  Corpus corpus = {
      .model = smollm2(),
      .prompts = {"The capital of France is", "Once upon a time", "def fibonacci(n):\n",
                  "1, 2, 3, 4,", "안녕하세요, 저는",
                  "The quick brown fox jumps over the lazy dog. The quick brown fox",
                  "Water boils at", "🙂 🙃", "In 1969, humans first", "SELECT name FROM",
                  "To be, or not to be, that is", "Photosynthesis is the process by which plants",
                  "a a a a a a a a", "Dear Sir or Madam,\n\nI am writing to",
                  "#include <stdio.h>\nint main", "Q: What is the largest planet?\nA:"}};
  corpus.max_tokens = 16;
  corpus.max_model_len = 48;
  check_matrix(corpus, all_settings());
}

}  // namespace
}  // namespace quire::test
