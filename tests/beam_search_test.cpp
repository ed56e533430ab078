// Beam search against transformers' (tests/data/beam_search, made by
// scripts/goldens/beam_search.py), and the same bits under every setting that must not change one.
#include <cmath>
#include <future>
#include <memory>

#include <boost/json/value_to.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "engine/api.h"
#include "support/collector.h"
#include "support/engine_setting.h"
#include "support/test_models.h"

namespace quire::test {
namespace {

struct Case {
  std::vector<TokenId> prompt;
  SamplingParams params;
  std::vector<std::vector<TokenId>> outputs;
  std::vector<double> scores;
};

EarlyStopping early_stopping_of(const json::value& value) {
  if (value.is_string()) return EarlyStopping::kNever;
  return value.as_bool() ? EarlyStopping::kAtOnce : EarlyStopping::kWhenUnlikely;
}

std::vector<Case> read_cases() {
  const auto file = read_json_file(QUIRE_SOURCE_DIR "/tests/data/beam_search/cases.json", 1 << 20);
  EXPECT_TRUE(file.ok()) << file.status().to_string();
  std::vector<Case> cases;
  for (const json::value& each : file->at("cases").as_array()) {
    Case& golden = cases.emplace_back();
    golden.prompt = json::value_to<std::vector<TokenId>>(each.at("prompt_token_ids"));
    golden.outputs = json::value_to<std::vector<std::vector<TokenId>>>(each.at("outputs"));
    golden.scores = json::value_to<std::vector<double>>(each.at("scores"));
    SamplingParams& params = golden.params;
    params.beam_width = each.at("beam_width").to_number<std::int64_t>();
    params.n = params.beam_width;
    params.length_penalty = each.at("length_penalty").to_number<double>();
    params.early_stopping = early_stopping_of(each.at("early_stopping"));
    params.stop_token_ids = json::value_to<std::vector<TokenId>>(each.at("stop_token_ids"));
    params.max_tokens = file->at("max_tokens").to_number<std::int64_t>();
  }
  return cases;
}

double score_of(const Output& output, double length_penalty) {
  return output.last.cumulative_logprob /
         std::pow(static_cast<double>(output.token_ids.size()), length_penalty);
}

std::unique_ptr<Engine> engine_of(const EngineArgs& args) {
  auto engine = Engine::create(args, {});
  EXPECT_TRUE(engine.ok()) << engine.status().to_string();
  return engine.ok() ? std::move(*engine) : nullptr;
}

TEST(BeamSearchGolden, EqualsTransformers) {
  EngineArgs args;
  args.model = tiny_llama("hf");
  args.dtype = "float32";
  args.kv_cache_dtype = "float32";
  args.max_num_seqs = 64;
  const auto engine = engine_of(args);
  ASSERT_NE(engine, nullptr);
  const std::vector<Case> cases = read_cases();
  ASSERT_GT(cases.size(), 100U);
  Collector collector(cases.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto id = engine->submit({.prompt_token_ids = cases[i].prompt, .params = cases[i].params},
                                   collector.sink(i));
    ASSERT_TRUE(id.ok()) << id.status().to_string();
  }
  collector.wait_for(cases.size());
  const auto found = collector.take();
  std::size_t num_stopped = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& golden = cases[i];
    ASSERT_EQ(found[i].size(), golden.outputs.size());
    for (std::size_t rank = 0; rank < found[i].size(); ++rank) {
      const Output& output = found[i][rank];
      EXPECT_EQ(output.token_ids, golden.outputs[rank]) << "case " << i << ", output " << rank;
      EXPECT_NEAR(score_of(output, golden.params.length_penalty), golden.scores[rank], 2e-3);
      num_stopped += output.last.finish_reason == FinishReason::kStop ? 1 : 0;
    }
  }
  EXPECT_GT(num_stopped, 100U);
}

using Setting = EngineSetting;

constexpr std::size_t kNumRequests = 24;

struct Searched {
  std::string model;
  TokenId vocab_size = 0;
  bool states = false;  // some layers keep a state: nothing guesses
};

// Searches of all widths, among requests that draw.
SamplingParams params_of(std::size_t i, TokenId vocab_size) {
  SamplingParams params;
  params.max_tokens = 14;
  if (i % 4 == 3) {
    params.seed = i;
    params.n = 2;
    params.ignore_eos = true;
    return params;
  }
  params.beam_width = 1 + static_cast<std::int64_t>(i % 5);
  params.n = 1 + static_cast<std::int64_t>(i % 2 == 0 ? params.beam_width - 1 : 0);
  params.length_penalty = 0.5 * static_cast<double>(i % 3);
  params.early_stopping = static_cast<EarlyStopping>(i / 3 % 3);
  params.stop_token_ids = {static_cast<TokenId>(20 + i),
                           static_cast<TokenId>(120 + 3 * i) % vocab_size};
  if (i % 3 == 0) params.logprobs = 2;
  return params;
}

// Some share a beginning.
std::vector<TokenId> prompt_of(std::size_t i, TokenId vocab_size) {
  std::vector<TokenId> prompt;
  for (std::size_t p = 0; p < 5 + i % 30; ++p) {
    const std::size_t token = 5 + (p * 31 + (p > 16 ? i : i % 3) * 17) % 300;
    prompt.push_back(static_cast<TokenId>(token) % vocab_size);
  }
  return prompt;
}

std::vector<std::vector<Output>> run(const Searched& searched, const Setting& setting) {
  EngineArgs args = args_of(setting);
  args.model = searched.model;
  args.max_model_len = 64;
  if (setting.preempt) {
    const auto engine = engine_of(args);
    // What states take of the pool goes by blocks.
    const auto tokens = searched.states ? 36 * static_cast<std::uint64_t>(setting.block_size) : 128;
    if (engine) args.kv_cache_memory_bytes = engine->info().kv_bytes_per_token * tokens;
  }
  const auto engine = engine_of(args);
  if (!engine) return {};
  Collector collector(kNumRequests);
  for (std::size_t i = 0; i < kNumRequests; ++i) {
    const TokenId vocab_size = searched.vocab_size;
    const auto id = engine->submit(
        {.prompt_token_ids = prompt_of(i, vocab_size), .params = params_of(i, vocab_size)},
        collector.sink(i));
    EXPECT_TRUE(id.ok()) << "request " << i << ": " << id.status().to_string();
    if (!id.ok()) return {};
    if (!setting.batch) collector.wait_for(i + 1);
  }
  collector.wait_for(kNumRequests);
  EXPECT_EQ(engine->observe().num_preemptions > 0, setting.preempt) << setting.name;
  return collector.take();
}

void check_matrix(const Searched& searched) {
  const auto expected = run(searched, {.name = "alone", .batch = false, .prefix_caching = false});
  ASSERT_EQ(expected.size(), kNumRequests);
  for (const Setting& setting :
       {Setting{.name = "together"}, Setting{.name = "found", .batch = false},
        Setting{.name = "blocks of 1", .block_size = 1},
        Setting{.name = "blocks of 5", .block_size = 5, .chunk = 7},
        Setting{.name = "chunks of 5", .chunk = 5, .prefix_caching = false},
        Setting{.name = "one thread", .threads = 1}, Setting{.name = "few rows", .max_num_seqs = 6},
        Setting{.name = "preempted", .block_size = 4, .preempt = true},
        Setting{.name = "preempted, chunks", .block_size = 2, .chunk = 9, .preempt = true},
        Setting{.name = "preempted, nothing found",
        .block_size = 4,
        .prefix_caching = false,
        .preempt = true},
        Setting{.name = "two steps", .max_steps_in_flight = 2},
        Setting{.name = "static", .batching = "static"},
        Setting{.name = "dynamic", .batching = "dynamic"},
        Setting{.name = "priority", .policy = "priority"},
        Setting{.name = "fair", .policy = "fair"},
        Setting{.name = "guesses",
        .speculation = R"({"method": "ngram", "num_speculative_tokens": 3})"}}) {
    if (searched.states && setting.speculation != "{}") continue;
    // What one search needs for a prompt's states is room for all rows of such small steps.
    if (searched.states && setting.preempt && setting.chunk < 16) continue;
    const auto found = run(searched, setting);
    ASSERT_EQ(found.size(), kNumRequests) << setting.name;
    for (std::size_t i = 0; i < kNumRequests; ++i) {
      EXPECT_EQ(found[i] == expected[i], true) << setting.name << ", request " << i;
    }
  }
}

TEST(BeamSearchMatrix, TheSameBitsUnderEverySetting) {
  check_matrix({.model = tiny_llama("hf"), .vocab_size = 320});
}

// Beams copy the state that they have in common.
TEST(BeamSearchMatrix, TheSameBitsOfLayersThatKeepAState) {
  check_matrix({.model = family_model("lfm2", "hf"), .vocab_size = 128, .states = true});
}

class BeamSearchRequests : public testing::Test {
 protected:
  void SetUp() override {
    EngineArgs args;
    args.model = tiny_llama("hf");
    args.max_num_seqs = 4;
    args.max_model_len = 64;
    engine_ = engine_of(args);
    ASSERT_NE(engine_, nullptr);
  }
  Status submit(const SamplingParams& params, const OutputSink& sink) {
    return engine_->submit({.prompt_token_ids = {5, 6, 7}, .params = params}, sink).status();
  }

  std::unique_ptr<Engine> engine_;
};

TEST_F(BeamSearchRequests, WhatHasNoPartInASearchIsRefused) {
  const auto message = [&](auto change) {
    SamplingParams params;
    params.beam_width = 2;
    change(params);
    const Status status = submit(params, [](const RequestOutput&) {});
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.to_string();
  };
  using testing::HasSubstr;
  EXPECT_THAT(message([](auto& p) { p.n = 3; }), HasSubstr("n: 3 is more than beam_width"));
  EXPECT_THAT(message([](auto& p) { p.stop = {"a"}; }), HasSubstr("stop: cannot be used"));
  EXPECT_THAT(message([](auto& p) { p.min_tokens = 1; }), HasSubstr("min_tokens: cannot be used"));
  EXPECT_THAT(message([](auto& p) { p.repetition_penalty = 2; }), HasSubstr("repetition_penalty"));
  EXPECT_THAT(message([](auto& p) { p.logit_bias = {{3, 1.0F}}; }), HasSubstr("logit_bias"));
  EXPECT_THAT(message([](auto& p) { p.allowed_token_ids = {3}; }), HasSubstr("allowed_token_ids"));
  EXPECT_THAT(message([](auto& p) { p.beam_width = 129; }), HasSubstr("beam_width: 129"));
  EXPECT_THAT(message([](auto& p) { p.length_penalty = 11; }), HasSubstr("length_penalty: 11"));
  EXPECT_THAT(message([](auto& p) {
                p.beam_width = 0;
                p.length_penalty = 2;
              }),
              HasSubstr("length_penalty: is only for beam searches"));
}

// The scheduler's refusal: all beams are in a step together.
TEST_F(BeamSearchRequests, MoreBeamsThanSequencesAreRefused) {
  SamplingParams params;
  params.beam_width = 5;
  std::promise<Status> refused;
  ASSERT_TRUE(
      submit(params, [&](const RequestOutput& output) { refused.set_value(output.error); }).ok());
  EXPECT_THAT(refused.get_future().get().message(),
              testing::HasSubstr("5 beams are in a step together, max_num_seqs is 4"));
}

TEST_F(BeamSearchRequests, AnAbortEndsAllOutputs) {
  SamplingParams params;
  params.beam_width = 3;
  params.n = 2;
  params.max_tokens = 60;
  params.ignore_eos = true;
  Collector collector(1);
  const auto id =
      engine_->submit({.prompt_token_ids = {5, 6, 7}, .params = params}, collector.sink(0));
  ASSERT_TRUE(id.ok());
  engine_->abort(*id);
  collector.wait_for(1);
  const auto outputs = collector.take();
  ASSERT_EQ(outputs[0].size(), 2U);
  for (const Output& output : outputs[0]) EXPECT_TRUE(output.last.finished);
}

}  // namespace
}  // namespace quire::test
