// KV blocks in files, through the engine: what comes back from there is what was computed, whoever
// stored it, and nothing else ever is.
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "engine/api.h"
#include "engine/assembly.h"
#include "support/collector.h"
#include "support/remote_device.h"
#include "support/test_models.h"
#include "weights/temp_folder.h"

namespace quire::test {
namespace {

using ::testing::HasSubstr;

constexpr std::int32_t kOffloadPromptLen = 120;
constexpr int kNumPrompts = 4;

std::vector<TokenId> offload_prompt(int number) {
  std::vector<TokenId> prompt;
  for (std::int32_t i = 0; i < kOffloadPromptLen; ++i) {
    prompt.push_back(3 + (i * i * 7 + i * 3 + number * 13) % 100);
  }
  return prompt;
}

class KvOffload : public ::testing::Test {
 protected:
  // A pool of little more than one prompt, so that each pushes the one before it out.
  EngineArgs args(bool offload = true) const {
    EngineArgs args;
    args.device = "cpu";
    args.model = tiny_llama("tiny_llama_bf16.gguf");
    args.threads = 2;
    args.max_num_seqs = 2;
    args.max_model_len = 160;
    args.kv_cache_memory_bytes = kv_bytes_per_token_ * 176;
    if (offload) {
      args.kv_offload_path = (folder_.path() / "tier").string();
      args.kv_offloading_size = 0.01;
    }
    return args;
  }

  void SetUp() override {
    EngineArgs args;
    args.model = tiny_llama("tiny_llama_bf16.gguf");
    args.max_num_seqs = 1;
    auto engine = Engine::create(args, {});
    ASSERT_TRUE(engine.ok()) << engine.status().to_string();
    kv_bytes_per_token_ = (*engine)->info().kv_bytes_per_token;
  }

  static std::unique_ptr<Engine> make(const EngineArgs& args) {
    auto engine = Engine::create(args, {});
    EXPECT_TRUE(engine.ok()) << engine.status().to_string();
    return engine.ok() ? std::move(*engine) : nullptr;
  }

  static Output generate(Engine& engine, int number, const std::string& owner = {}) {
    Collector collector(1);
    GenerateRequest request;
    request.prompt_token_ids = offload_prompt(number);
    request.params.temperature = 0;
    request.params.max_tokens = 8;
    request.params.ignore_eos = true;
    request.params.logprobs = 2;
    request.cache_owner = owner;
    EXPECT_TRUE(engine.submit(std::move(request), collector.sink(0)).ok());
    collector.wait_for(1);
    return collector.take().at(0).at(0);
  }
  // One after the other; each is pushed out by the next.
  static std::vector<Output> generate_all(Engine& engine) {
    std::vector<Output> outputs;
    for (int i = 0; i < kNumPrompts; ++i) outputs.push_back(generate(engine, i));
    return outputs;
  }
  static EngineStats written(const Engine& engine) {
    EngineStats stats = engine.observe();
    for (int i = 0; i < 1000; ++i, stats = engine.observe()) {
      if (stats.tier.blocks_written + stats.tier.blocks_dropped >= stats.blocks_offloaded) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return stats;
  }
  // The one folder of a model below the tier's.
  std::filesystem::path files() const {
    return std::filesystem::directory_iterator(folder_.path() / "tier")->path();
  }

  testing::TempFolder folder_;
  std::uint64_t kv_bytes_per_token_ = 0;
};

TEST_F(KvOffload, GivesTheSameTokensInThisRunAndTheNext) {
  for (const char* dtype : {"bfloat16", "float32", "fp8", "int8"}) {
    SCOPED_TRACE(dtype);
    const std::uint64_t wide = dtype == std::string("float32") ? 2 : 1;
    EngineArgs plain = args(false);
    plain.kv_cache_dtype = dtype;
    plain.kv_cache_memory_bytes = wide * *plain.kv_cache_memory_bytes;
    const auto engine_without = make(plain);
    ASSERT_NE(engine_without, nullptr);
    const auto expected = generate_all(*engine_without);
    EngineArgs offloading = args();
    offloading.kv_cache_dtype = dtype;
    offloading.kv_cache_memory_bytes = plain.kv_cache_memory_bytes;
    {
      const auto engine = make(offloading);
      ASSERT_NE(engine, nullptr);
      EXPECT_EQ(generate_all(*engine), expected);
      EXPECT_EQ(generate_all(*engine), expected);
      const EngineStats stats = written(*engine);
      // One prompt at least: further ones only where reading was the faster way.
      EXPECT_GE(stats.external_prefix_cache_hits, kOffloadPromptLen - 16);
      EXPECT_GT(stats.tier.blocks_written, kOffloadPromptLen / 16);
      EXPECT_EQ(stats.blocks_fetch_failed, 0);
      EXPECT_EQ(stats.tier.blocks_damaged, 0);
      EXPECT_EQ(stats.blocks_leaked, 0);
    }
    const auto engine = make(offloading);
    ASSERT_NE(engine, nullptr);
    const Output first = generate(*engine, 0);
    EXPECT_EQ(first, expected[0]) << "after a restart";
    EXPECT_GE(first.last.num_cached_tokens, kOffloadPromptLen - 16);
    ASSERT_NE(first.last.timeline, nullptr);
    EXPECT_GT(first.last.timeline->total(WaitCause::kKvFetch, *first.last.metrics.finished),
              Duration::zero());
  }
}

// What was never pushed out either.
TEST_F(KvOffload, KeepsThePrefixCacheForTheNextRun) {
  Output expected;
  {
    const auto engine = make(args());
    ASSERT_NE(engine, nullptr);
    expected = generate(*engine, 0);
    EXPECT_EQ(engine->observe().blocks_offloaded, 0);
  }
  const auto engine = make(args());
  ASSERT_NE(engine, nullptr);
  const Output again = generate(*engine, 0);
  EXPECT_EQ(again, expected);
  EXPECT_GE(again.last.num_cached_tokens, kOffloadPromptLen - 16);
  EXPECT_GT(engine->observe().blocks_fetched, 0);
}

// Its memory is not the host's, and its ops run later.
TEST_F(KvOffload, ComesBackToAnotherDevicesMemory) {
  const auto expected = generate_all(*make(args(false)));
  for (int run = 0; run < 2; ++run) {
    auto engine = create_engine(args(), {}, remote_compute_device());
    ASSERT_TRUE(engine.ok()) << engine.status().to_string();
    EXPECT_EQ(generate_all(**engine), expected);
    EXPECT_EQ(written(**engine).blocks_fetch_failed, 0);
    if (run == 1) {
      EXPECT_GT((*engine)->observe().blocks_fetched, 0);
    }
  }
}

TEST_F(KvOffload, DamagedFilesGiveNoWrongToken) {
  std::vector<Output> expected;
  {
    const auto engine = make(args());
    expected = generate_all(*engine);
    written(*engine);
  }
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const auto path = files() / (seed % 3 == 0 ? "index" : "blocks");
    const auto size = std::filesystem::file_size(path);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    for (std::uint64_t i = 0; i < 400; ++i) {
      // What is used lies at the beginning.
      file.seekp(static_cast<std::streamoff>(random_bits(seed, i) % std::min(size, size / 8 + 64)));
      file.put(static_cast<char>(random_bits(seed, ~i)));
    }
    file.close();
    const auto engine = make(args());
    ASSERT_NE(engine, nullptr);
    EXPECT_EQ(generate_all(*engine), expected) << "seed " << seed;
    EXPECT_GT(written(*engine).tier.blocks_damaged, 0) << "seed " << seed;
  }
}

TEST_F(KvOffload, AKeyFindsNothingOfAnothers) {
  const auto engine = make(args());
  const Output expected = generate(*engine, 0, "alice");
  for (int i = 1; i < kNumPrompts; ++i) generate(*engine, i);
  const Output of_other = generate(*engine, 0, "bob");
  EXPECT_EQ(of_other, expected);
  EXPECT_EQ(of_other.last.num_cached_tokens, 0);
  // New ones, so that nothing has been read yet, and it is not known how long that takes.
  for (int i = kNumPrompts; i < 2 * kNumPrompts; ++i) generate(*engine, i);
  EXPECT_GT(generate(*engine, 0, "alice").last.num_cached_tokens, 0);
}

TEST_F(KvOffload, EachKindOfBlocksHasItsOwnFiles) {
  {
    const auto engine = make(args());
    generate_all(*engine);
    written(*engine);
  }
  EngineArgs other = args();
  other.kv_cache_dtype = "fp8";
  const auto engine = make(other);
  EXPECT_EQ(generate(*engine, 0).last.num_cached_tokens, 0);
  EXPECT_EQ(engine->observe().tier.blocks_damaged, 0);
}

TEST_F(KvOffload, IsRefusedWhereItCannotBe) {
  const auto refused = [&](EngineArgs args) {
    const auto engine = Engine::create(args, {});
    EXPECT_FALSE(engine.ok());
    return engine.ok() ? "" : engine.status().to_string();
  };
  EngineArgs unsized = args();
  unsized.kv_offloading_size = 0;
  EXPECT_THAT(refused(unsized), HasSubstr("--kv-offloading-size"));
  EngineArgs nowhere = args();
  nowhere.kv_offload_path.clear();
  EXPECT_THAT(refused(nowhere), HasSubstr("--kv-offload-path DIR"));
  EngineArgs uncached = args();
  uncached.enable_prefix_caching = false;
  EXPECT_THAT(refused(uncached), HasSubstr("prefix caching"));
  EngineArgs no_folder = args();
  no_folder.kv_offload_path = folder_.write("file", "").string();
  EXPECT_THAT(refused(no_folder), HasSubstr("--kv-offload-path"));
  EngineArgs windows = args();
  windows.model = family_model("gemma3", "hf");
  windows.kv_cache_memory_bytes.reset();
  EXPECT_THAT(refused(windows), HasSubstr("a window of tokens or a state"));
  const auto engine = make(args());
  EXPECT_THAT(refused(args()), HasSubstr("in use by another process"));
}

}  // namespace
}  // namespace quire::test
