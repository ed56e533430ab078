// Same tokens, always, with everything that a request may ask for: every sampling transform,
// several outputs, log probabilities, prompts that share blocks, 32 requests at once; alone and
// together, and under every setting of the scheduler.
#include <algorithm>
#include <memory>
#include <numeric>
#include <span>

#include <gtest/gtest.h>

#include "engine/api.h"
#include "support/collector.h"
#include "support/engine_setting.h"
#include "support/test_models.h"

namespace quire::test {
namespace {

constexpr std::size_t kNumRequests = 32;
constexpr std::int64_t kMaxTokens = 14;
constexpr std::int32_t kMaxModelLen = 128;

using Setting = EngineSetting;

// Shifts the logits, each time to another place.
class ShiftingProcessor : public LogitsProcessor {
 public:
  Status process(std::span<const TokenId> output, std::span<float> logits) override {
    const std::size_t shift = (output.empty() ? 3 : static_cast<std::size_t>(output.back()) + 1);
    std::rotate(logits.begin(), logits.begin() + static_cast<std::ptrdiff_t>(shift % logits.size()),
                logits.end());
    return {};
  }
};

// Request `i` samples in a way of its own.
SamplingParams params_of(std::size_t i) {
  SamplingParams params;
  params.max_tokens = kMaxTokens;
  params.ignore_eos = true;
  params.seed = 1000 + i;
  params.temperature = 0.5 + 0.1 * static_cast<double>(i % 7);
  params.n = i % 4 == 3 ? 3 : 1;
  if (i % 8 == 0) params.temperature = 0;
  if (i % 3 == 1) params.top_k = 5 + static_cast<std::int64_t>(i);
  if (i % 3 == 2) params.top_p = 0.8;
  if (i % 5 == 1) params.min_p = 0.05;
  if (i % 5 == 2) params.repetition_penalty = 1.3;
  if (i % 5 == 3) params.presence_penalty = 0.7;
  if (i % 5 == 4) params.frequency_penalty = 0.9;
  if (i % 6 == 2) params.logit_bias = {{7, 2.5F}, {11, -100.0F}};
  if (i % 6 == 3) params.stop_token_ids = {9, 31};
  if (i % 6 == 3) params.min_tokens = 5;
  if (i % 7 == 4) params.allowed_token_ids = {5, 6, 7, 8, 40, 41, 42, 43, 90, 91, 92};
  if (i % 7 == 5) params.bad_words = {"a", "e", "the"};
  if (i % 4 == 2) params.logprobs = 4;
  if (i % 9 == 6) params.prompt_logprobs = 1;
  if (i % 6 == 1) params.logits_processor = std::make_shared<ShiftingProcessor>();
  return params;
}

// Half of the prompts share a long beginning, some of them all of it.
std::vector<TokenId> prompt_of(std::size_t i, std::int64_t vocab_size) {
  std::vector<TokenId> prompt;
  const auto token = [&](std::size_t stream, std::size_t position) {
    return static_cast<TokenId>((stream * 7919 + position * 104729 + 13) %
                                static_cast<std::size_t>(vocab_size));
  };
  const std::size_t shared = i % 2 == 0 ? 48 : 0;
  for (std::size_t p = 0; p < shared; ++p) prompt.push_back(token(0, p));
  const std::size_t own = i % 4 == 0 ? 0 : 1 + (i * 5) % 40;
  for (std::size_t p = 0; p < own; ++p) prompt.push_back(token(i + 1, p));
  return prompt;
}

std::vector<std::vector<Output>> run(const std::string& model, const Setting& setting) {
  EngineArgs args = args_of(setting);
  args.model = model;
  args.max_model_len = kMaxModelLen;
  if (setting.preempt) {
    EngineArgs probe = args;
    probe.max_num_seqs = 1;
    const auto engine = Engine::create(probe, {});
    if (engine.ok()) {
      // A drafter's cache takes its part; heads have none.
      const bool cache = args.speculation && args.speculation->computes() &&
                         args.speculation->method != SpeculativeMethod::kMedusa;
      args.kv_cache_memory_bytes =
          (*engine)->info().kv_bytes_per_token * kMaxModelLen * (cache ? 3 : 2) * 3 / 4;
    }
  }
  auto engine = Engine::create(args, {});
  EXPECT_TRUE(engine.ok()) << engine.status().to_string();
  if (!engine.ok()) return {};
  Collector collector(kNumRequests);
  for (std::size_t i = 0; i < kNumRequests; ++i) {
    GenerateRequest request;
    request.prompt_token_ids = prompt_of(i, (*engine)->info().vocab_size);
    request.params = params_of(i);
    request.priority = static_cast<std::int32_t>(i * 7 % 5);
    // Of each request another number of guesses; one in five as the governor says.
    if (args.speculation && i % 5 > 0) request.drafts = static_cast<std::int32_t>(i % 8);
    const auto id = (*engine)->submit(std::move(request), collector.sink(i));
    EXPECT_TRUE(id.ok()) << "request " << i << ": " << id.status().to_string();
    if (!id.ok()) return {};
    if (!setting.batch) collector.wait_for(i + 1);
  }
  collector.wait_for(kNumRequests);
  const EngineStats stats = (*engine)->observe();
  EXPECT_EQ(stats.blocks_leaked, 0);
  if (setting.preempt) {
    EXPECT_GT(stats.num_preemptions, 0);
  }
  if (setting.prefix_caching) {
    EXPECT_GT(stats.prompt_tokens_cached, 0);
  }
  EXPECT_EQ(stats.draft_tokens, stats.draft_tokens_accepted + stats.draft_tokens_rejected);
  if (args.speculation) {
    EXPECT_GT(stats.draft_tokens_rejected, 0) << setting.name;
  }
  return collector.take();
}

// Guesses after one token that stood there before: many, and most of them wrong.
constexpr const char* kNgram = R"({"method": "ngram", "num_speculative_tokens": 8,
                                   "prompt_lookup_min": 1, "prompt_lookup_max": 4})";
constexpr const char* kSuffix = R"({"method": "suffix", "num_speculative_tokens": 8,
                                    "suffix_decoding_max_cached_requests": 16,
                                    "suffix_decoding_min_token_prob": 0})";

constexpr const char* kTrees = R"({"method": "suffix", "num_speculative_tokens": 12,
                                    "suffix_decoding_max_cached_requests": 16,
                                    "suffix_decoding_max_spec_factor": 4,
                                    "suffix_decoding_min_token_prob": 0,
                                    "suffix_decoding_max_tree_width": 6})";

// Under all of the settings the outputs are those of each request alone.
void expect_same_tokens(const std::string& model, std::span<const Setting> settings,
                        IsaLevel level) {
  const ForceIsa force(level);
  const auto alone = run(model, {.name = "alone", .batch = false, .prefix_caching = false});
  ASSERT_EQ(alone.size(), kNumRequests);
  for (std::size_t i = 0; i < kNumRequests; ++i) {
    ASSERT_EQ(alone[i].size(), static_cast<std::size_t>(params_of(i).n)) << "request " << i;
  }
  for (const Setting& setting : settings) {
    const auto outputs = run(model, setting);
    ASSERT_EQ(outputs.size(), kNumRequests) << setting.name;
    for (std::size_t i = 0; i < kNumRequests; ++i) {
      ASSERT_EQ(outputs[i].size(), alone[i].size());
      for (std::size_t sample = 0; sample < alone[i].size(); ++sample) {
        EXPECT_EQ(outputs[i][sample], alone[i][sample])
            << setting.name << ": request " << i << ", output " << sample << ", level "
            << isa_level_name(level);
      }
    }
  }
}

class SamplingMatrix : public testing::TestWithParam<std::string> {};

TEST_P(SamplingMatrix, EverySettingGivesTheSameTokens) {
  const std::string model = GetParam();
  const bool states = model == family_model("lfm2", "hf");  // keeps_states()
  std::vector<Setting> settings = {
      {.name = "batch"},
      {.name = "batch, no prefix cache", .prefix_caching = false},
      {.name = "block size 1, chunk 1", .block_size = 1, .chunk = 1},
      {.name = "block size 4, chunk 16, 1 thread", .block_size = 4, .chunk = 16, .threads = 1},
      {.name = "5 slots", .max_num_seqs = 5},
      {.name = "preemption", .block_size = 4, .preempt = true},
      {.name = "preemption, priorities", .block_size = 4, .preempt = true, .policy = "priority"},
      {.name = "static", .max_num_seqs = 8, .batching = "static"},
      {.name = "dynamic", .max_num_seqs = 8, .batching = "dynamic"},
      {.name = "ngram", .speculation = kNgram},
      {.name = "ngram, chunk 16, alone, 1 thread",
       .batch = false,
       .chunk = 16,
       .threads = 1,
       .speculation = kNgram},
      {.name = "suffix, preemption", .block_size = 4, .preempt = true, .speculation = kSuffix},
      {.name = "trees, preemption", .block_size = 4, .preempt = true, .speculation = kTrees},
  };
  if (states) {
    std::erase_if(settings, [](const Setting& setting) { return setting.speculation != "{}"; });
  }
  for (const IsaLevel level : available_levels()) expect_same_tokens(model, settings, level);
}

// What computes guesses, with each request's own way of sampling.
class SamplingOfDrafts : public testing::TestWithParam<const char*> {};

TEST_P(SamplingOfDrafts, EverySettingGivesTheSameTokens) {
  const std::string method = GetParam();
  const std::string drafter =
      family_model(method == "draft_model" ? "qwen2" : "llama_" + method, "hf");
  const std::string config = R"({"num_speculative_tokens": 8, "method": ")" + method +
                             (method == "mtp" ? R"("})" : R"(", "model": ")" + drafter + R"("})");
  const Setting settings[] = {
      {.name = "drafts", .speculation = config},
      {.name = "drafts, block size 4, chunk 16, preemption",
       .block_size = 4,
       .chunk = 16,
       .preempt = true,
       .speculation = config},
  };
  expect_same_tokens(family_model(method == "mtp" ? "glm4_moe_mtp" : "llama", "hf"), settings,
                     available_levels().back());
}

INSTANTIATE_TEST_SUITE_P(Methods, SamplingOfDrafts,
                         testing::Values("draft_model", "mtp", "eagle", "eagle3", "medusa"),
                         [](const auto& param) { return std::string(param.param); });

std::string model_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = std::filesystem::path(info.param).parent_path().filename().string() + "_" +
                     std::filesystem::path(info.param).stem().string();
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

// One for each kind of cache, positions, mixture and logits; matrix_test has every family.
constexpr std::string_view kSampledFamilies[] = {
    "llama",  "gemma2",      "gemma3",  "gemma4", "cohere",    "granite", "gpt2",   "mpt",
    "llama4", "deepseek_v3", "gpt_oss", "phi3",   "qwen3_moe", "lfm2",    "gemma3n"};

std::vector<std::string> models() {
  std::vector<std::string> models = {tiny_llama("hf"), tiny_llama("tiny_llama_q4_0.gguf"),
                                     family_model("gemma3", "model.gguf")};
  for (const std::string_view family : kSampledFamilies) {
    models.push_back(family_model(family, "hf"));
  }
  return models;
}

INSTANTIATE_TEST_SUITE_P(TinyModels, SamplingMatrix, testing::ValuesIn(models()), model_name);

}  // namespace
}  // namespace quire::test
