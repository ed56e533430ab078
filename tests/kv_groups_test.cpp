// Models whose layers keep different tokens, through the engine: the tokens are those of a forward
// pass over the whole sequence at once, which has one block table and keeps everything.
#include <algorithm>
#include <future>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/api.h"
#include "serve/http/server.h"
#include "serve/metrics/metrics.h"
#include "serve/models/test_held_engine.h"
#include "support/changed_checkpoint.h"
#include "support/collector.h"
#include "support/score.h"
#include "support/test_models.h"

namespace quire::test {
namespace {

constexpr std::int32_t kPromptLen = 90;  // several windows, which are 16 and 20 tokens
constexpr std::int32_t kOutputLen = 40;

std::vector<TokenId> prompt_of(std::int32_t seed) {
  std::vector<TokenId> prompt;
  for (std::int32_t i = 0; i < kPromptLen; ++i) prompt.push_back((i * i * 7 + i * 3 + seed) % 120);
  return prompt;
}

class KvGroups : public ::testing::TestWithParam<std::string_view> {
 protected:
  EngineArgs args() const {
    EngineArgs args;
    args.model = family_model(GetParam(), "hf");
    args.dtype = "float32";
    args.threads = 2;
    args.max_num_seqs = 4;
    args.max_num_batched_tokens = 24;  // chunks that begin and end anywhere in a window
    return args;
  }

  // One after the other, so that later ones find what earlier ones left.
  std::vector<std::vector<TokenId>> generate(Engine& engine,
                                             const std::vector<std::vector<TokenId>>& prompts) {
    std::vector<std::vector<TokenId>> sequences;
    for (const std::vector<TokenId>& prompt : prompts) {
      Collector collector(1);
      GenerateRequest request;
      request.prompt_token_ids = prompt;
      request.params.temperature = 0;
      request.params.max_tokens = kOutputLen;
      request.params.ignore_eos = true;
      request.params.logprobs = 0;
      EXPECT_TRUE(engine.submit(std::move(request), collector.sink(0)).ok());
      collector.wait_for(1);
      sequences.push_back(prompt);
      const auto outputs = collector.take();
      const auto& output = outputs.at(0).at(0).token_ids;
      sequences.back().insert(sequences.back().end(), output.begin(), output.end());
    }
    return sequences;
  }

  void expect_greedy(const std::vector<TokenId>& sequence) {
    auto scorer = Scorer::open(family_model(GetParam(), "hf"), best_level(),
                               ActivationMode::kFloat32, DType::kF32, 256);
    ASSERT_TRUE(scorer.ok()) << scorer.status().to_string();
    const auto logits = (*scorer)->score(sequence, kPromptLen - 1);
    const auto vocab = (*scorer)->vocab_size();
    for (std::int32_t i = 0; i < kOutputLen; ++i) {
      const auto row = logits.begin() + i * vocab;
      const auto best = std::max_element(row, row + vocab) - row;
      ASSERT_EQ(sequence[static_cast<std::size_t>(kPromptLen + i)], best) << "output token " << i;
    }
  }

  static IsaLevel best_level() { return available_levels().back(); }
};

TEST_P(KvGroups, TokensAreThoseOfOneForwardPass) {
  for (const bool prefix_caching : {true, false}) {
    for (const std::int32_t block_size : {1, 4, 16}) {
      EngineArgs small = args();
      small.block_size = block_size;
      small.enable_prefix_caching = prefix_caching;
      auto engine = Engine::create(small, {});
      ASSERT_TRUE(engine.ok()) << engine.status().to_string();
      auto longer = prompt_of(1);
      std::fill(longer.begin() + 70, longer.end(), 5);  // a prefix of the first one's
      const auto sequences = generate(**engine, {prompt_of(1), prompt_of(1), longer});
      EXPECT_EQ(sequences[0], sequences[1]);
      expect_greedy(sequences[0]);
      expect_greedy(sequences[2]);
      const EngineStats stats = settled_stats(**engine);
      EXPECT_EQ(stats.blocks_used, 0);
      EXPECT_EQ(stats.blocks_leaked, 0);
      if (prefix_caching) {
        // With blocks of one token the smaller pool has let go of the third one's window.
        EXPECT_GE(stats.prefix_cache_hits, block_size == 1 ? 89 : 80 + 64);
      }
    }
  }
}

// What the pool holds while a long sequence is computed is what its windows need.
TEST_P(KvGroups, ThePoolIsSmallerThanAllTokens) {
  auto engine = Engine::create(args(), {});
  ASSERT_TRUE(engine.ok()) << engine.status().to_string();
  const EngineInfo& info = (*engine)->info();
  const PlannedKvGroup& last = info.plan.kv_groups.back();
  EXPECT_TRUE(last.window > 0 || last.state_bytes > 0);
  EXPECT_LT(info.kv_cache_bytes, info.kv_bytes_per_token *
                                     static_cast<std::uint64_t>(info.max_num_seqs) *
                                     static_cast<std::uint64_t>(info.max_model_len));
}

// Each page that is used, or free and cached, is one of a group: at every moment, and as scraped.
TEST_P(KvGroups, PagesOfTheGroupsAddUp) {
  EngineArgs settings = args();
  settings.block_size = 4;
  auto engine = Engine::create(settings, {});
  ASSERT_TRUE(engine.ok()) << engine.status().to_string();
  Collector collector(4);
  std::vector<std::int64_t> most_used((*engine)->info().plan.kv_groups.size());
  std::promise<void> all_ended;
  look_at_each_step(**engine, [&](const EngineState& state) {
    const EngineStats stats = state.stats();
    EXPECT_EQ(stats.kv_groups.size(), most_used.size());
    std::int64_t used = 0;
    std::int64_t cached = 0;
    for (std::size_t i = 0; i < most_used.size(); ++i) {
      const PlannedKvGroup& planned = (*engine)->info().plan.kv_groups[i];
      EXPECT_EQ(stats.kv_groups[i].window, planned.window);
      EXPECT_EQ(stats.kv_groups[i].state, planned.state_bytes > 0);
      used += stats.kv_groups[i].pages_used;
      cached += stats.kv_groups[i].pages_cached;
      most_used[i] = std::max(most_used[i], stats.kv_groups[i].pages_used);
    }
    EXPECT_EQ(used, stats.blocks_used);
    EXPECT_EQ(cached, stats.blocks_cached);
    if (stats.num_finished < 4) return true;
    all_ended.set_value();
    return false;
  });
  for (std::size_t i = 0; i < 4; ++i) {
    GenerateRequest request;
    request.prompt_token_ids = prompt_of(static_cast<std::int32_t>(i / 2));
    request.params.temperature = 0;
    request.params.max_tokens = kOutputLen;
    request.params.ignore_eos = true;
    ASSERT_TRUE((*engine)->submit(std::move(request), collector.sink(i)).ok());
  }
  all_ended.get_future().wait();
  for (const std::int64_t used : most_used) EXPECT_GT(used, 0);
  collector.wait_for(4);

  const StepMeter meter;
  const std::string text = Metrics(**engine, "m", meter).expose({}, nullptr, std::nullopt);
  const auto sum = [&](const std::string& name, const std::string& state) {
    double total = 0;
    int num_found = 0;
    for (std::size_t at = 0; (at = text.find("\n" + name + "{", at)) != std::string::npos; ++at) {
      const std::string line = text.substr(at + 1, text.find('\n', at + 1) - at - 1);
      if (line.find("state=\"" + state + "\"") == std::string::npos) continue;
      total += std::stod(line.substr(line.rfind(' ')));
      ++num_found;
    }
    EXPECT_GT(num_found, 0) << name;
    return total;
  };
  EXPECT_EQ(sum("quire_kv_group_pages", "used"), sum("quire_blocks", "used"));
  EXPECT_EQ(sum("quire_kv_group_pages", "cached"), sum("quire_blocks", "cached"));
  EXPECT_GT(sum("quire_kv_group_pages", "cached"), 0);
}

// A long context of latent attention takes one vector of a token and layer, no more than the last
// block has room for; the plan says so before.
TEST(LatentCache, ALongContextTakesWhatItsLatentsNeed) {
  constexpr std::int64_t kTokens = 8192;
  const ChangedCheckpoint checkpoint(
      family_model("deepseek_v3", "hf"),
      {{"max_position_embeddings", 2 * kTokens},
       {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 10000.0}}}});
  EngineArgs args;
  args.model = checkpoint.path();
  args.threads = 2;
  args.max_num_seqs = 1;
  args.max_model_len = kTokens + 16;
  args.max_num_batched_tokens = 512;
  args.enable_prefix_caching = false;
  auto engine = Engine::create(args, {});
  ASSERT_TRUE(engine.ok()) << engine.status().to_string();
  const EngineInfo& info = (*engine)->info();
  // Three layers of 32 numbers and 8 that turn, in bfloat16.
  constexpr std::uint64_t kTokenBytes = 3 * (32 + 8) * 2;
  EXPECT_EQ(info.kv_bytes_per_token, kTokenBytes);

  std::int64_t most_used = 0;
  std::promise<void> ended;
  look_at_each_step(**engine, [&](const EngineState& state) {
    most_used = std::max(most_used, state.stats().blocks_used);
    if (state.stats().num_finished == 0) return true;
    ended.set_value();
    return false;
  });
  Collector collector(1);
  GenerateRequest request;
  for (std::int64_t i = 0; i < kTokens; ++i) {
    request.prompt_token_ids.push_back(static_cast<TokenId>((i * i * 7 + i * 3) % 120));
  }
  request.params.temperature = 0;
  request.params.max_tokens = 2;
  request.params.ignore_eos = true;
  ASSERT_TRUE((*engine)->submit(std::move(request), collector.sink(0)).ok());
  collector.wait_for(1);
  ended.get_future().wait();
  const std::uint64_t page_bytes =
      info.kv_cache_bytes / static_cast<std::uint64_t>(info.num_blocks);
  EXPECT_EQ(page_bytes, kTokenBytes * static_cast<std::uint64_t>(info.block_size));
  const std::uint64_t used = static_cast<std::uint64_t>(most_used) * page_bytes;
  EXPECT_GE(used, kTokens * kTokenBytes);
  EXPECT_LE(used, (kTokens + info.block_size) * kTokenBytes);
}

// The plan counts a state as what it is, and a model that keeps one cannot take guesses back.
TEST(States, ThePlanCountsThemAndSpeculationIsRefusedByName) {
  EngineArgs args;
  args.model = family_model("lfm2", "hf");
  args.threads = 1;
  {
    const auto engine = Engine::create(args, {});
    ASSERT_TRUE(engine.ok()) << engine.status().to_string();
    const MemoryPlan& plan = (*engine)->info().plan;
    ASSERT_EQ(plan.kv_groups.size(), 2U);
    EXPECT_EQ(plan.kv_groups[0].num_layers, 2);
    EXPECT_EQ(plan.kv_groups[1].num_layers, 3);
    EXPECT_EQ(plan.kv_groups[1].state_bytes, 3U * 2 * 32 * sizeof(float));
    EXPECT_NE(plan.to_text().find("3 layers keep a state of 768 bytes"), std::string::npos)
        << plan.to_text();
    EXPECT_EQ(plan.to_json().at("kv_groups").at(1).at("state_bytes").to_number<int>(), 768);
  }
  args.speculation =
      SpeculativeConfig::parse(R"({"method": "ngram", "num_speculative_tokens": 4})").value();
  const auto refused = Engine::create(args, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kConfig);
  EXPECT_NE(refused.status().message().find("--speculative-config"), std::string::npos);
  EXPECT_NE(refused.status().message().find("state"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Families, KvGroups,
                         ::testing::Values("gemma3", "mistral", "gemma4", "gemma3n", "lfm2"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace quire::test
