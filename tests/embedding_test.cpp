// Hidden states through the whole engine, pooled in each way: against the reference's, and the same
// bits whatever else runs, however prompts are cut, with every number of threads and after
// preemptions. The goldens are made by scripts/make_goldens.sh pooling.
#include <bit>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <tuple>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/api.h"
#include "support/golden.h"
#include "support/test_models.h"

namespace quire::test {
namespace {

using testing::HasSubstr;

// The last outputs of several requests, by the number of the request.
class Results {
 public:
  OutputSink sink(std::size_t index) {
    return [this, index](const RequestOutput& output) {
      const std::lock_guard lock(mutex_);
      if (!output.request_finished) return;
      last_[index] = output;
      changed_.notify_one();
    };
  }
  const RequestOutput& wait_for(std::size_t index) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(
        changed_.wait_for(lock, std::chrono::minutes(5), [&] { return last_.contains(index); }))
        << "request " << index << " has not ended";
    return last_[index];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::size_t, RequestOutput> last_;
};

std::unique_ptr<Engine> open(const EngineArgs& args) {
  auto engine = Engine::create(args, {});
  EXPECT_TRUE(engine.ok()) << engine.status().to_string();
  return engine.ok() ? std::move(*engine) : nullptr;
}

GenerateRequest embedding_of(std::vector<TokenId> prompt) {
  GenerateRequest request;
  request.prompt_token_ids = std::move(prompt);
  request.embed = true;
  return request;
}

std::vector<TokenId> some_prompt(std::size_t seed, std::size_t size) {
  std::vector<TokenId> prompt(size);
  for (std::size_t i = 0; i < size; ++i) {
    prompt[i] = static_cast<TokenId>((seed * 31 + i * i * 7 + i * 13 + 11) % 120 + 3);
  }
  return prompt;
}

class PoolingReference : public ::testing::TestWithParam<std::string_view> {};

TEST_P(PoolingReference, HiddenStatesInFloat32Within1e4) {
  const auto prompt = token_ids(
      golden("families/" + std::string(GetParam()) + "/goldens.json").at("prompt_token_ids"));
  const auto expected = golden_floats("pooling/" + std::string(GetParam()) + ".bin");
  const json::value goldens = golden("pooling/goldens.json");
  const json::array& lengths = goldens.at("lengths").as_array();
  for (const IsaLevel level : available_levels()) {
    const ForceIsa force(level);
    EngineArgs args;
    args.model = family_model(GetParam(), "hf");
    args.dtype = "float32";
    args.max_num_batched_tokens = 40;
    args.threads = 2;
    const auto engine = open(args);
    ASSERT_NE(engine, nullptr);
    const auto size = static_cast<std::size_t>(engine->info().hidden_size);
    ASSERT_EQ(expected.size(), lengths.size() * size);
    Results results;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const auto end = prompt.begin() + lengths[i].as_int64();
      ASSERT_TRUE(engine->submit(embedding_of({prompt.begin(), end}), results.sink(i)).ok());
    }
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const RequestOutput& output = results.wait_for(i);
      const auto row = expected.begin() + static_cast<std::ptrdiff_t>(i * size);
      EXPECT_LE(
          largest_difference(output.embedding, {row, row + static_cast<std::ptrdiff_t>(size)}),
          1e-4F)
          << isa_level_name(level) << ", " << lengths[i] << " tokens";
      EXPECT_EQ(output.finish_reason, FinishReason::kStop);
      EXPECT_EQ(output.num_prompt_tokens, lengths[i].as_int64());
      EXPECT_EQ(output.num_output_tokens, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, PoolingReference, ::testing::Values("llama", "qwen3", "gemma3"),
                         [](const auto& param) { return std::string(param.param); });

struct Setting {
  std::string name;
  bool batch = true;
  std::int32_t block_size = 16;
  std::int32_t chunk = 512;
  int threads = 2;
  bool preempt = false;
  bool prompts_too = false;
  bool prefix_caching = true;
  std::string batching = "continuous";
};

constexpr std::size_t kNumPrompts = 12;
constexpr std::int32_t kMaxModelLen = 128;

constexpr std::string_view kPoolings[] = {"last", "cls", "mean"};

// The bits of the embeddings of prompts of all lengths up to max_model_len; in a batch, requests
// that generate run among them.
std::vector<std::vector<std::uint32_t>> run(const EngineArgs& model, const Setting& setting,
                                            std::uint64_t kv_bytes_per_token) {
  EngineArgs args = model;
  args.threads = setting.threads;
  args.block_size = setting.block_size;
  args.max_num_batched_tokens = setting.chunk;
  args.max_num_seqs = 16;
  args.max_model_len = kMaxModelLen;
  args.enable_prefix_caching = setting.prefix_caching;
  args.batching = setting.batching;
  args.max_batch_delay_ms = 5;
  // Who is to go first is then no question of what steps were measured to take.
  if (setting.prompts_too) args.scheduling_policy = "priority";
  if (setting.preempt) {
    args.kv_cache_memory_bytes = kv_bytes_per_token * kMaxModelLen * 5 / 4;
  }
  const auto engine = open(args);
  if (engine == nullptr) return {};
  Results results;
  Results others;
  for (std::size_t i = 0; i < kNumPrompts; ++i) {
    if (setting.batch && i % 2 == 0) {
      GenerateRequest request;
      request.prompt_token_ids = some_prompt(i, 4);
      request.params.ignore_eos = true;
      request.params.max_tokens = 60;
      EXPECT_TRUE(engine->submit(std::move(request), others.sink(i)).ok());
    }
    // Every other prompt begins as the one before it does.
    const std::size_t length = i + 1 == kNumPrompts ? kMaxModelLen : 1 + i * 9;
    GenerateRequest pooled = embedding_of(some_prompt(i / 2, length));
    pooled.priority = setting.prompts_too ? 1 : 0;
    EXPECT_TRUE(engine->submit(std::move(pooled), results.sink(i)).ok());
    if (!setting.batch) results.wait_for(i);
  }
  std::vector<std::vector<std::uint32_t>> bits(kNumPrompts);
  std::int32_t num_preempted = 0;
  for (std::size_t i = 0; i < kNumPrompts; ++i) {
    const RequestOutput& output = results.wait_for(i);
    EXPECT_TRUE(output.error.ok()) << output.error.to_string();
    EXPECT_EQ(output.num_cached_tokens, 0);
    num_preempted += output.metrics.num_preemptions;
    for (const float value : output.embedding)
      bits[i].push_back(std::bit_cast<std::uint32_t>(value));
    if (setting.batch && i % 2 == 0) {
      EXPECT_EQ(others.wait_for(i).num_output_tokens, 60);
    }
  }
  const EngineStats stats = engine->observe();
  if (setting.preempt) {
    EXPECT_GT(stats.num_preemptions, 0);
  }
  if (setting.prompts_too) {
    EXPECT_GT(num_preempted, 0);
  }
  EXPECT_EQ(stats.blocks_leaked, 0);
  return bits;
}

class EmbeddingMatrix
    : public ::testing::TestWithParam<std::tuple<std::string_view, std::string_view>> {};

TEST_P(EmbeddingMatrix, SameBits) {
  EngineArgs model;
  model.model = family_model(std::get<0>(GetParam()), "hf");
  model.pooling_type = std::get<1>(GetParam());
  EngineArgs args = model;
  args.max_num_seqs = 1;
  const auto engine = open(args);
  ASSERT_NE(engine, nullptr);
  const std::uint64_t kv_bytes = engine->info().kv_bytes_per_token;
  const auto size = static_cast<std::size_t>(engine->info().hidden_size);
  for (const IsaLevel level : available_levels()) {
    const ForceIsa force(level);
    const auto alone =
        run(model, {.name = "alone", .batch = false, .prefix_caching = false}, kv_bytes);
    ASSERT_EQ(alone.size(), kNumPrompts);
    for (const auto& bits : alone) ASSERT_EQ(bits.size(), size);
    // Prompts of 1 and 10 tokens begin with the same one.
    EXPECT_EQ(alone[0] == alone[1], model.pooling_type == "cls");
    EXPECT_NE(alone[1], alone[2]);
    std::vector<Setting> settings = {
        {.name = "batch"},
        {.name = "block 1", .block_size = 1},
        {.name = "chunk 16", .chunk = 16},
        {.name = "chunk 1", .chunk = 1},
        {.name = "1 thread", .threads = 1},
        {.name = "no prefix cache", .prefix_caching = false},
        {.name = "preemption, chunk 16", .block_size = 4, .chunk = 16, .preempt = true},
        {.name = "static", .batching = "static"},
        {.name = "dynamic, chunk 16", .chunk = 16, .batching = "dynamic"},
    };
    // A prompt that is preempted itself; with windows there is room for all.
    if (std::get<0>(GetParam()) == "llama") {
      settings.push_back({.name = "prompts preempted",
                          .block_size = 4,
                          .chunk = 16,
                          .preempt = true,
                          .prompts_too = true});
    }
    for (const Setting& setting : settings) {
      EXPECT_EQ(run(model, setting, kv_bytes), alone)
          << isa_level_name(level) << ", " << setting.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, EmbeddingMatrix,
                         ::testing::Combine(::testing::Values("llama", "gemma3"),
                                            ::testing::ValuesIn(kPoolings)),
                         [](const auto& param) {
                           return std::string(std::get<0>(param.param)) + "_" +
                                  std::string(std::get<1>(param.param));
                         });

std::vector<float> embed(Engine& engine, std::vector<TokenId> prompt) {
  Results results;
  EXPECT_TRUE(engine.submit(embedding_of(std::move(prompt)), results.sink(0)).ok());
  const RequestOutput& output = results.wait_for(0);
  EXPECT_TRUE(output.error.ok()) << output.error.to_string();
  return output.embedding;
}

// Each token's state is that of the last one of the tokens up to it.
TEST(Embedding, TheMeanAndTheFirstOfWhatEachTokenHas) {
  for (const std::string_view family : {"llama", "qwen3", "gemma3"}) {
    EngineArgs args;
    args.model = family_model(family, "hf");
    args.max_num_batched_tokens = 7;
    args.pooling_type = "last";
    const auto last = open(args);
    args.pooling_type = "cls";
    const auto cls = open(args);
    args.pooling_type = "MEAN";
    args.max_num_seqs = 3;
    const auto mean = open(args);
    ASSERT_TRUE(last && cls && mean);
    const std::vector<TokenId> prompt = some_prompt(3, 23);
    std::vector<double> sum(static_cast<std::size_t>(last->info().hidden_size));
    std::vector<float> state;
    for (auto end = prompt.begin() + 1; end <= prompt.end(); ++end) {
      state = embed(*last, {prompt.begin(), end});
      ASSERT_EQ(state.size(), sum.size());
      if (end == prompt.begin() + 1) {
        EXPECT_EQ(embed(*cls, prompt), state) << family;
      }
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(state[i]);
      if (end - prompt.begin() != 1 && end != prompt.end()) continue;
      std::vector<float> expected;
      for (const double value : sum) {
        expected.push_back(static_cast<float>(value / static_cast<double>(end - prompt.begin())));
      }
      EXPECT_EQ(embed(*mean, {prompt.begin(), end}), expected) << family;
    }
    EXPECT_NE(state, embed(*mean, prompt));
  }
}

// Copies the folder of a tiny model and makes it one of sentence-transformers.
class EmbeddingFolder {
 public:
  EmbeddingFolder(const std::string& pooling, bool dense) {
    std::string pattern = (std::filesystem::temp_directory_path() / "embedding_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
    std::filesystem::copy(family_model("llama", "hf"), path_);
    std::filesystem::create_directory(path_ / "1_Pooling");
    std::ofstream(path_ / "1_Pooling" / "config.json") << pooling;
    std::ofstream(path_ / "modules.json")
        << R"([{"path": "", "type": "sentence_transformers.models.Transformer"},
               {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"})"
        << (dense ? R"(, {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}])"
                  : "]");
  }
  EmbeddingFolder(const EmbeddingFolder&) = delete;
  EmbeddingFolder& operator=(const EmbeddingFolder&) = delete;
  ~EmbeddingFolder() { std::filesystem::remove_all(path_); }

  std::unique_ptr<Engine> open(const std::string& pooling_type = "auto") const {
    EngineArgs args;
    args.model = path_.string();
    args.pooling_type = pooling_type;
    return test::open(args);
  }

 private:
  std::filesystem::path path_;
};

TEST(Embedding, AFolderSaysHowItIsPooled) {
  const EmbeddingFolder folder(R"({"pooling_mode_mean_tokens": true})", false);
  const auto engine = folder.open();
  EngineArgs args;
  args.model = family_model("llama", "hf");
  args.pooling_type = "mean";
  const auto mean = open(args);
  ASSERT_TRUE(engine && mean);
  EXPECT_EQ(engine->info().embedding.pooling, Pooling::kMean);
  EXPECT_FALSE(engine->info().embedding.normalize);
  EXPECT_TRUE(mean->info().embedding.normalize);
  EXPECT_EQ(embed(*engine, some_prompt(2, 30)), embed(*mean, some_prompt(2, 30)));
  EXPECT_EQ(folder.open("last")->info().embedding.pooling, Pooling::kLast);
}

TEST(Embedding, WhatCannotBePooledAsTheModelSaysIsRefusedAndTextIsNot) {
  Results results;
  const auto refused = [&](Engine& engine) {
    const auto id = engine.submit(embedding_of(some_prompt(1, 5)), results.sink(0));
    EXPECT_FALSE(id.ok());
    EXPECT_EQ(id.status().code(), StatusCode::kConfig);
    return id.status().to_string();
  };
  const EmbeddingFolder largest(R"({"pooling_mode_max_tokens": true})", false);
  const auto engine = largest.open();
  ASSERT_NE(engine, nullptr);
  EXPECT_THAT(refused(*engine), HasSubstr("1_Pooling/config.json: pooling_mode_max_tokens"));
  GenerateRequest text;
  text.prompt_token_ids = some_prompt(1, 5);
  text.params.max_tokens = 2;
  text.params.ignore_eos = true;
  ASSERT_TRUE(engine->submit(std::move(text), results.sink(1)).ok());
  EXPECT_EQ(results.wait_for(1).num_output_tokens, 2);
  EXPECT_FALSE(embed(*largest.open("mean"), some_prompt(1, 5)).empty());

  const EmbeddingFolder dense(R"({"pooling_mode_mean_tokens": true})", true);
  EXPECT_THAT(refused(*dense.open()), HasSubstr("modules.json: its module"));
  EXPECT_THAT(refused(*dense.open("mean")), HasSubstr("Dense"));

  EngineArgs args;
  args.model = family_model("llama", "hf");
  args.pooling_type = "max";
  const auto unknown = Engine::create(args, {});
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.status().message(), HasSubstr("--pooling-type max"));
}

TEST(Embedding, NothingOfTheSamplingParametersCounts) {
  EngineArgs args;
  args.model = family_model("llama", "hf");
  args.max_model_len = 64;
  const auto engine = open(args);
  ASSERT_NE(engine, nullptr);
  Results results;
  ASSERT_TRUE(engine->submit(embedding_of(some_prompt(1, 20)), results.sink(0)).ok());
  GenerateRequest strange = embedding_of(some_prompt(1, 20));
  strange.params.n = 3;
  strange.params.prompt_logprobs = 2;
  strange.params.max_tokens = 1'000'000;
  strange.params.stop = {"a"};
  ASSERT_TRUE(engine->submit(std::move(strange), results.sink(1)).ok());
  EXPECT_EQ(results.wait_for(0).embedding, results.wait_for(1).embedding);
  EXPECT_TRUE(results.wait_for(1).prompt_logprobs.empty());

  ASSERT_TRUE(engine->submit(embedding_of(some_prompt(1, 64)), results.sink(2)).ok());
  EXPECT_FALSE(results.wait_for(2).embedding.empty());
  const auto refused = engine->submit(embedding_of(some_prompt(1, 65)), results.sink(3));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("65 tokens; at most 64 fit"));
}

TEST(Embedding, CanBeAborted) {
  EngineArgs args;
  args.model = family_model("llama", "hf");
  args.max_num_batched_tokens = 1;
  args.threads = 1;
  const auto engine = open(args);
  ASSERT_NE(engine, nullptr);
  Results results;
  const auto id = engine->submit(embedding_of(some_prompt(1, 120)), results.sink(0));
  ASSERT_TRUE(id.ok());
  engine->abort(*id);
  const RequestOutput& output = results.wait_for(0);
  // The prompt may have been quicker.
  if (output.finish_reason == FinishReason::kAbort) {
    EXPECT_TRUE(output.embedding.empty());
  } else {
    EXPECT_FALSE(output.embedding.empty());
  }
  EXPECT_EQ(engine->observe().blocks_leaked, 0);
}

}  // namespace
}  // namespace quire::test
