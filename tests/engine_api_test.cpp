// The engine as its callers see it, on a tiny model with random weights: n outputs, the ways in
// which an output ends, log probabilities, defaults, refusals, aborts.
#include <algorithm>
#include <atomic>
#include <bit>
#include <condition_variable>
#include <future>
#include <mutex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/api.h"
#include "serve/models/test_held_engine.h"
#include "support/collector.h"
#include "support/test_models.h"

namespace quire::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class EngineTest : public testing::Test {
 protected:
  void start(EngineArgs args = {}) {
    args.model = tiny_llama("hf");
    args.threads = 2;
    auto engine = Engine::create(args, {});
    ASSERT_TRUE(engine.ok()) << engine.status().to_string();
    engine_ = std::move(*engine);
  }

  GenerateRequest request(std::int64_t max_tokens) const {
    GenerateRequest request;
    request.prompt_token_ids =
        *engine_->encode_text("The quick brown fox jumps over the lazy dog.");
    request.params.temperature = 0;
    request.params.ignore_eos = true;
    request.params.max_tokens = max_tokens;
    return request;
  }

  // All outputs of one request, run to its end.
  std::vector<Output> run(GenerateRequest request) {
    Collector collector(1);
    const auto id = engine_->submit(std::move(request), collector.sink(0));
    EXPECT_TRUE(id.ok()) << id.status().to_string();
    if (!id.ok()) return std::vector<Output>(1);
    collector.wait_for(1);
    prompt_logprobs_ = collector.prompt_logprobs();
    return collector.take()[0];
  }

  Status refusal(GenerateRequest request) {
    const auto id = engine_->submit(std::move(request), [](const RequestOutput&) { FAIL(); });
    EXPECT_FALSE(id.ok());
    return id.status();
  }

  std::unique_ptr<Engine> engine_;
  std::vector<PositionLogprobs> prompt_logprobs_;
};

class FailingProcessor : public LogitsProcessor {
 public:
  Status process(std::span<const TokenId> output, std::span<float> /*logits*/) override {
    if (output.size() < 3) return {};
    return Status::invalid_argument("the processor fails");
  }
};

// All outputs of its request end, and no other.
TEST_F(EngineTest, AProcessorThatFailsEndsItsRequest) {
  start();
  const Output alone = run(request(12))[0];
  GenerateRequest failing = request(12);
  failing.params.n = 3;
  failing.params.logits_processor = std::make_shared<FailingProcessor>();
  std::promise<Status> failed;
  std::size_t num_tokens = 0;
  const auto sink = [&](const RequestOutput& output) {
    num_tokens += output.token_ids.size();
    if (output.request_finished) failed.set_value(output.error);
  };
  Collector collector(1);
  ASSERT_TRUE(engine_->submit(std::move(failing), sink).ok());
  ASSERT_TRUE(engine_->submit(request(12), collector.sink(0)).ok());
  const Status status = failed.get_future().get();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("the processor fails"));
  collector.wait_for(1);
  EXPECT_EQ(collector.take()[0].at(0), alone);
  EXPECT_GE(num_tokens, 3U);
  EXPECT_EQ(engine_->observe().num_running, 0);
}

TEST_F(EngineTest, GivesNOutputsWithSeedsInARow) {
  start();
  GenerateRequest many = request(12);
  many.params.temperature = 1;
  many.params.seed = 7;
  many.params.n = 5;
  const auto outputs = run(many);
  ASSERT_EQ(outputs.size(), 5U);
  std::set<std::vector<TokenId>> distinct;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    GenerateRequest one = request(12);
    one.params.temperature = 1;
    one.params.seed = 7 + i;
    EXPECT_EQ(run(one)[0], outputs[i]) << "output " << i;
    EXPECT_EQ(outputs[i].last.finish_reason, FinishReason::kLength);
    distinct.insert(outputs[i].token_ids);
  }
  EXPECT_GT(distinct.size(), 1U);
  EXPECT_EQ(engine_->observe().blocks_leaked, 0);
}

TEST_F(EngineTest, MoreOutputsThanSlotsRunInTurns) {
  EngineArgs args;
  args.max_num_seqs = 2;
  start(args);
  GenerateRequest many = request(8);
  many.params.n = 7;
  many.params.temperature = 1;
  const auto outputs = run(many);
  ASSERT_EQ(outputs.size(), 7U);
  for (const Output& output : outputs) EXPECT_EQ(output.token_ids.size(), 8U);
}

TEST_F(EngineTest, EndsAtAStopStringAcrossTokens) {
  start();
  const Output whole = run(request(24))[0];
  // Bytes from the middle of the text, most likely over a token's border.
  const std::size_t begin = whole.text.size() / 3;
  const std::string stop = whole.text.substr(begin, 5);
  ASSERT_EQ(stop.size(), 5U);
  const std::size_t at = whole.text.find(stop);

  GenerateRequest stopped = request(24);
  stopped.params.stop = {"never", stop};
  const Output output = run(stopped)[0];
  EXPECT_EQ(output.text, whole.text.substr(0, at));
  EXPECT_EQ(output.last.finish_reason, FinishReason::kStop);
  EXPECT_EQ(output.last.stop_string, stop);
  // The tokens end with the one that completed it.
  EXPECT_TRUE(
      std::equal(output.token_ids.begin(), output.token_ids.end(), whole.token_ids.begin()));

  stopped.params.include_stop_str_in_output = true;
  EXPECT_EQ(run(stopped)[0].text, whole.text.substr(0, at + stop.size()));

  // Before min_tokens nothing ends the output.
  stopped.params.min_tokens = 24;
  EXPECT_EQ(run(stopped)[0].token_ids.size(), 24U);
}

TEST_F(EngineTest, EndsAtAStopTokenAndNamesIt) {
  start();
  const Output whole = run(request(10))[0];
  GenerateRequest stopped = request(10);
  stopped.params.stop_token_ids = {whole.token_ids[4]};
  const auto first = std::find(whole.token_ids.begin(), whole.token_ids.end(), whole.token_ids[4]);
  const Output output = run(stopped)[0];
  EXPECT_EQ(output.token_ids.size(), static_cast<std::size_t>(first - whole.token_ids.begin()) + 1);
  EXPECT_EQ(output.last.finish_reason, FinishReason::kStop);
  EXPECT_EQ(output.last.stop_token_id, whole.token_ids[4]);

  stopped.params.min_tokens = 10;  // banned until then
  const Output longer = run(stopped)[0];
  EXPECT_EQ(longer.token_ids.size(), 10U);
  EXPECT_THAT(longer.token_ids, testing::Not(testing::Contains(whole.token_ids[4])));
}

TEST_F(EngineTest, BiasAndAllowedIdsRuleTheOutput) {
  start();
  GenerateRequest biased = request(3);
  biased.params.logit_bias = {{100, 100.0F}};
  EXPECT_THAT(run(biased)[0].token_ids, ElementsAre(100, 100, 100));
  GenerateRequest allowed = request(3);
  allowed.params.allowed_token_ids = {42};
  EXPECT_THAT(run(allowed)[0].token_ids, ElementsAre(42, 42, 42));
}

TEST_F(EngineTest, ABadWordStaysOut) {
  start();
  const Output whole = run(request(16))[0];
  const std::string word(engine_->tokenizer().token_text(whole.token_ids[2]));
  GenerateRequest clean = request(16);
  clean.params.bad_words = {engine_->tokenizer().decode(std::span(&whole.token_ids[2], 1))};
  const Output output = run(clean)[0];
  const auto banned = *engine_->tokenizer().encode(
      clean.params.bad_words[0], {.add_special_tokens = false, .parse_special = false});
  EXPECT_EQ(
      std::search(output.token_ids.begin(), output.token_ids.end(), banned.begin(), banned.end()),
      output.token_ids.end())
      << word;
}

TEST_F(EngineTest, GivesLogProbabilitiesWithAlternatives) {
  start();
  std::vector<RequestOutput> pieces;
  std::mutex mutex;
  std::condition_variable done;
  GenerateRequest asking = request(4);
  asking.params.logprobs = 3;
  asking.params.prompt_logprobs = 2;
  const std::size_t num_prompt = asking.prompt_token_ids.size();
  const auto prompt = asking.prompt_token_ids;
  ASSERT_TRUE(engine_
                  ->submit(std::move(asking),
                           [&](const RequestOutput& output) {
                             const std::lock_guard lock(mutex);
                             pieces.push_back(output);
                             done.notify_one();
                           })
                  .ok());
  std::unique_lock lock(mutex);
  done.wait(lock, [&] { return !pieces.empty() && pieces.back().request_finished; });

  double sum = 0;
  for (const RequestOutput& piece : pieces) {
    for (std::size_t i = 0; i < piece.logprobs.size(); ++i) {
      const PositionLogprobs& position = piece.logprobs[i];
      EXPECT_EQ(position.token.token_id, piece.token_ids[i]);
      EXPECT_EQ(position.token.rank, 1);  // greedy
      ASSERT_EQ(position.top.size(), 3U);
      EXPECT_EQ(position.top[0].token_id, piece.token_ids[i]);
      EXPECT_EQ(position.top[0].logprob, position.token.logprob);
      EXPECT_GE(position.top[0].logprob, position.top[1].logprob);
      EXPECT_GE(position.top[1].logprob, position.top[2].logprob);
      sum += static_cast<double>(position.token.logprob);
    }
  }
  EXPECT_NEAR(pieces.back().cumulative_logprob, sum, 1e-9);
  ASSERT_EQ(pieces[0].prompt_logprobs.size(), num_prompt - 1);
  for (std::size_t i = 0; i + 1 < num_prompt; ++i) {
    const PositionLogprobs& position = pieces[0].prompt_logprobs[i];
    EXPECT_EQ(position.token.token_id, prompt[i + 1]);
    EXPECT_LT(position.token.logprob, 0.0F);
    EXPECT_GE(position.token.rank, 1);
    EXPECT_EQ(position.top.size(), 2U);
  }
}

TEST_F(EngineTest, PromptLogProbabilitiesAreThoseOfGeneration) {
  start();
  GenerateRequest generated = request(6);
  generated.params.logprobs = 0;
  const Output output = run(generated)[0];
  GenerateRequest scored = request(1);
  scored.prompt_token_ids.insert(scored.prompt_token_ids.end(), output.token_ids.begin(),
                                 output.token_ids.end());
  scored.params.prompt_logprobs = 0;
  const std::size_t first = generated.prompt_token_ids.size() - 1;
  for (const std::int32_t chunk : {512, 5}) {
    EngineArgs args;
    args.max_num_batched_tokens = chunk;
    start(args);
    run(scored);
    ASSERT_EQ(prompt_logprobs_.size(), scored.prompt_token_ids.size() - 1);
    for (std::size_t i = 0; i < output.token_ids.size(); ++i) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(prompt_logprobs_[first + i].token.logprob),
                output.logprob_bits[i])
          << "token " << i << ", chunks of " << chunk;
    }
  }
}

TEST_F(EngineTest, CountsCachedTokensAndGivesTheSameOutput) {
  EngineArgs args;
  args.block_size = 4;
  start(args);
  const Output first = run(request(6))[0];
  EXPECT_EQ(first.last.num_cached_tokens, 0);
  const Output second = run(request(6))[0];
  EXPECT_EQ(second.last.num_cached_tokens, second.last.num_prompt_tokens - 1);
  EXPECT_EQ(first, second);

  args.enable_prefix_caching = false;
  start(args);
  EXPECT_EQ(run(request(6))[0], first);
  EXPECT_EQ(run(request(6))[0].last.num_cached_tokens, 0);
}

TEST_F(EngineTest, AbortEndsAllOutputs) {
  start();
  GenerateRequest endless = request(100);
  endless.params.n = 3;
  Collector collector(1);
  const auto id = engine_->submit(std::move(endless), collector.sink(0));
  ASSERT_TRUE(id.ok());
  engine_->abort(*id);
  collector.wait_for(1);
  const auto outputs = collector.take()[0];
  ASSERT_EQ(outputs.size(), 3U);
  for (const Output& output : outputs) {
    EXPECT_TRUE(output.last.finish_reason == FinishReason::kAbort ||
                output.last.finish_reason == FinishReason::kLength);
  }
  engine_->abort(*id);  // unknown by now: ignored
  EXPECT_EQ(run(request(2))[0].token_ids.size(), 2U);
  EXPECT_EQ(engine_->observe().blocks_leaked, 0);
}

TEST_F(EngineTest, TakesDefaultsFromTheModel) {
  start();
  // tests/data/tiny_llama/hf/generation_config.json
  const SamplingParams& defaults = engine_->default_sampling_params();
  EXPECT_DOUBLE_EQ(defaults.temperature, SamplingParams().temperature);
  EngineArgs args;
  args.generation_config = "neither";
  args.model = tiny_llama("hf");
  const auto refused = Engine::create(args, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(), HasSubstr("--generation-config neither"));
}

TEST_F(EngineTest, RefusesWhatItCannotDo) {
  start();
  GenerateRequest wrong = request(1);
  wrong.params.logprobs = 21;
  EXPECT_THAT(refusal(wrong).to_string(), HasSubstr("--max-logprobs"));
  wrong = request(1);
  wrong.params.n = 0;
  EXPECT_EQ(refusal(wrong).code(), StatusCode::kInvalidArgument);
  wrong = request(1);
  wrong.params.logit_bias = {{100000, 1.0F}};
  EXPECT_THAT(refusal(wrong).message(), HasSubstr("logit_bias"));
  wrong = request(1);
  wrong.prompt_token_ids.assign(256, 5);
  EXPECT_THAT(refusal(wrong).message(), HasSubstr("--max-model-len 256"));
}

TEST_F(EngineTest, PlansMemoryAndRefusesWhatDoesNotFit) {
  start();
  const MemoryPlan& plan = engine_->info().plan;
  EXPECT_EQ(plan.weight_bytes, engine_->info().weight_bytes);
  EXPECT_EQ(plan.kv_cache_bytes, engine_->info().kv_cache_bytes);
  EngineArgs args;
  args.model = tiny_llama("hf");
  args.kv_cache_memory_bytes = 1;
  const auto refused = Engine::create(args, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.status().to_string(), HasSubstr("--kv-cache-memory-bytes"));
}

TEST_F(EngineTest, ShowsItsStateBetweenSteps) {
  start();
  GenerateRequest named = request(200);
  named.external_id = "req-1";
  Collector collector(1);
  Result<RequestId> id = RequestId{0};
  std::promise<std::string> seen;
  int num_looks = 0;
  {
    const HeldEngine held(*engine_);  // which would be done with it before it is looked at
    id = engine_->submit(std::move(named), collector.sink(0));
    ASSERT_TRUE(id.ok());
    look_at_each_step(*engine_, [&](const EngineState& state) {
      const Instant now = engine_->now();
      const auto output = state.find(*id, now);
      if (!output) {
        seen.set_value("none");
        return false;
      }
      EXPECT_EQ(state.running(9, now).size() + state.waiting(9, now).size(), 1U);
      const EngineStats stats = state.stats();
      EXPECT_EQ(stats.num_running + stats.num_waiting, 1);
      EXPECT_EQ(stats.blocks_used, output->num_blocks);
      std::vector<BlockUse> uses;
      state.read_block_uses(uses);
      EXPECT_EQ(std::ranges::count(uses, block_held(*id, false)), output->num_blocks);
      EXPECT_NE(state.timeline(*id), nullptr);
      EXPECT_EQ(state.timeline(*id + 1), nullptr);
      if (++num_looks < 5) return true;
      EXPECT_GT(output->num_blocks, 0);
      seen.set_value(output->external_id);
      return false;
    });
  }
  EXPECT_EQ(seen.get_future().get(), "req-1");
  collector.wait_for(1);
}

// Who has an answer finds it in the counts.
TEST_F(EngineTest, CountsWhatItHandsOutBeforeItDoes) {
  start();
  for (std::int64_t i = 0; i < 300; ++i) {
    const std::int64_t sampled = engine_->observe().output_tokens_sampled;
    std::promise<EngineStats> at_end;
    const auto id = engine_->submit(request(2), [&](const RequestOutput& output) {
      if (output.request_finished) at_end.set_value(engine_->observe());
    });
    ASSERT_TRUE(id.ok());
    const EngineStats stats = at_end.get_future().get();
    ASSERT_EQ(stats.num_finished, i + 1);
    ASSERT_EQ(stats.output_tokens_sampled, sampled + 2);
  }
}

// Whoever asks gets an answer, also while the engine ends.
TEST_F(EngineTest, AnswersEveryLookOnceThoughItEnds) {
  start();
  constexpr int kLooks = 1000;
  std::atomic<int> num_calls = 0;
  for (int i = 0; i < kLooks; ++i) {
    engine_->inspect([&](const EngineState*) { ++num_calls; });
  }
  engine_.reset();
  EXPECT_EQ(num_calls, kLooks);
}

}  // namespace
}  // namespace quire::test
