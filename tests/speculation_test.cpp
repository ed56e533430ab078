// Guesses at tokens change no output: whatever ends it, however many outputs there are, with
// stop strings that drafts run past; and what they did is told by request and by engine.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/api.h"
#include "support/collector.h"
#include "support/test_models.h"

namespace quire::test {
namespace {

using testing::HasSubstr;

SpeculativeConfig config_of(std::string_view text) {
  return SpeculativeConfig::parse(text).value().value();
}

SpeculativeConfig ngram() {
  return config_of(R"({"method": "ngram", "num_speculative_tokens": 32,
                       "prompt_lookup_min": 1, "prompt_lookup_max": 4})");
}

SpeculativeConfig by_model(const std::string& model, std::int32_t count) {
  return {
      .method = SpeculativeMethod::kDraftModel, .num_speculative_tokens = count, .model = model};
}

Result<std::unique_ptr<Engine>> make_engine(const std::optional<SpeculativeConfig>& speculation,
                                            const std::string& model = tiny_llama("hf")) {
  EngineArgs args;
  args.model = model;
  args.threads = 1;
  args.max_num_seqs = 8;
  args.max_model_len = 200;
  args.speculation = speculation;
  return Engine::create(args, {});
}

// A prompt that says things twice, so that there is something to look up.
std::vector<TokenId> prompt_of(std::size_t i) {
  std::vector<TokenId> prompt;
  for (std::size_t p = 0; p < 24 + i; ++p) {
    prompt.push_back(static_cast<TokenId>(20 + (p * (3 + i)) % 12));
  }
  return prompt;
}

std::vector<SamplingParams> all_params() {
  std::vector<SamplingParams> all;
  const auto add = [&](auto change) {
    SamplingParams params;
    params.max_tokens = 60;
    params.temperature = all.size() % 2 == 0 ? 0 : 0.4;
    params.seed = 5 + all.size();
    change(params);
    all.push_back(std::move(params));
  };
  for (int i = 0; i < 2; ++i) {
    add([](SamplingParams& params) { params.ignore_eos = true; });
    add([](SamplingParams& params) { params.n = 3; });
    add([](SamplingParams& params) { params.stop = {"a", "e ", "the"}; });
    add([](SamplingParams& params) {
      params.stop = {"s", "th"};
      params.include_stop_str_in_output = true;
    });
    add([](SamplingParams& params) { params.logprobs = 3; });
    add([](SamplingParams& params) { params.prompt_logprobs = 1; });
    add([](SamplingParams& params) { params.stop_token_ids = {20, 25, 30, 40, 41, 42, 43, 44}; });
    add([](SamplingParams& params) { params.min_tokens = 20; });
    add([](SamplingParams& params) { params.repetition_penalty = 1.2; });
    add([](SamplingParams& params) { params.max_tokens = 1; });
    add([](SamplingParams& params) { params.max_tokens = 1000; });  // up to max_model_len
  }
  return all;
}

std::vector<std::vector<Output>> outputs_of(Engine& engine, std::optional<std::int32_t> drafts) {
  const std::vector<SamplingParams> params = all_params();
  Collector collector(params.size());
  for (std::size_t i = 0; i < params.size(); ++i) {
    GenerateRequest request;
    request.prompt_token_ids = prompt_of(i);
    request.params = params[i];
    request.drafts = drafts;
    const auto id = engine.submit(std::move(request), collector.sink(i));
    EXPECT_TRUE(id.ok()) << id.status().to_string();
  }
  collector.wait_for(params.size());
  return collector.take();
}

void expect_same(const std::vector<std::vector<Output>>& a,
                 const std::vector<std::vector<Output>>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].size(), b[i].size());
    for (std::size_t sample = 0; sample < a[i].size(); ++sample) {
      const Output& one = a[i][sample];
      const Output& other = b[i][sample];
      EXPECT_EQ(one, other) << "request " << i << ", output " << sample;
      EXPECT_EQ(one.last.finish_reason, other.last.finish_reason);
      EXPECT_EQ(one.last.stop_string, other.last.stop_string);
      EXPECT_EQ(one.last.stop_token_id, other.last.stop_token_id);
      EXPECT_EQ(one.last.num_output_tokens, other.last.num_output_tokens);
    }
  }
}

TEST(Speculation, NoOutputChangesHoweverManyDraftsThereAre) {
  const auto plain = make_engine(std::nullopt);
  ASSERT_TRUE(plain.ok()) << plain.status().to_string();
  const auto expected = outputs_of(**plain, std::nullopt);
  const auto engine = make_engine(ngram());
  ASSERT_TRUE(engine.ok()) << engine.status().to_string();
  for (const std::optional<std::int32_t> drafts :
       std::vector<std::optional<std::int32_t>>{std::nullopt, 0, 1, 2, 3, 7, 31, 32}) {
    const EngineStats before = (*engine)->observe();
    const auto outputs = outputs_of(**engine, drafts);
    expect_same(outputs, expected);
    const EngineStats after = (*engine)->observe();
    const std::int64_t computed = after.draft_tokens - before.draft_tokens;
    if (drafts == 0) {
      EXPECT_EQ(computed, 0);
    } else if (drafts) {
      EXPECT_GT(computed, 0);
      EXPECT_GT(after.draft_tokens_accepted, before.draft_tokens_accepted);
    }
    std::int64_t told = 0;
    for (const auto& request : outputs) {
      for (const Output& output : request) {
        told += output.last.num_accepted_drafts + output.last.num_rejected_drafts;
      }
    }
    EXPECT_EQ(told, computed);
  }
}

TEST(Speculation, SuffixesOfOthersChangeNoOutput) {
  const auto plain = make_engine(std::nullopt);
  ASSERT_TRUE(plain.ok()) << plain.status().to_string();
  const auto expected = outputs_of(**plain, std::nullopt);
  const auto engine =
      make_engine(config_of(R"({"method": "suffix", "suffix_decoding_max_cached_requests": 100})"));
  ASSERT_TRUE(engine.ok()) << engine.status().to_string();
  // The second time each output is known, and is guessed.
  for (int i = 0; i < 2; ++i) {
    const EngineStats before = (*engine)->observe();
    expect_same(outputs_of(**engine, 16), expected);
    const EngineStats after = (*engine)->observe();
    const std::int64_t accepted = after.draft_tokens_accepted - before.draft_tokens_accepted;
    const std::int64_t sampled = after.output_tokens_sampled - before.output_tokens_sampled;
    if (i == 1) {
      EXPECT_GT(accepted, sampled / 2) << accepted << " of " << sampled;
    }
  }
}

// The same model guesses right, what is sampled too, for it draws with the same random numbers; the
// others have other weights, and are mostly wrong. One keeps the last tokens alone in some layers.
TEST(Speculation, DraftModelsChangeNoOutput) {
  const std::string llama = family_model("llama", "hf");
  for (const auto& [model, draft] :
       std::vector<std::pair<std::string, std::string>>{{llama, llama},
                                                        {llama, family_model("qwen2", "hf")},
                                                        {llama, family_model("gemma3", "hf")},
                                                        {family_model("gemma3", "hf"), llama}}) {
    const auto plain = make_engine(std::nullopt, model);
    ASSERT_TRUE(plain.ok()) << plain.status().to_string();
    const auto expected = outputs_of(**plain, std::nullopt);
    const auto engine = make_engine(by_model(draft, 8), model);
    ASSERT_TRUE(engine.ok()) << engine.status().to_string();
    EXPECT_GT((*engine)->info().plan.draft_bytes, 0U);
    for (const std::optional<std::int32_t> drafts :
         std::vector<std::optional<std::int32_t>>{std::nullopt, 1, 3, 8}) {
      const EngineStats before = (*engine)->observe();
      expect_same(outputs_of(**engine, drafts), expected);
      const EngineStats after = (*engine)->observe();
      const std::int64_t drafted = after.draft_tokens - before.draft_tokens;
      const std::int64_t accepted = after.draft_tokens_accepted - before.draft_tokens_accepted;
      if (drafts) {
        EXPECT_GT(drafted, 100);
      }
      // Wrong only where stop strings and the like end what was guessed on.
      if (drafts && model == draft) {
        EXPECT_GT(accepted, drafted * 9 / 10) << accepted << " of " << drafted;
      }
    }
  }
}

// Layers that read the model's states, which say anything here: their weights are random.
TEST(Speculation, LayersThatDraftChangeNoOutput) {
  const SpeculativeConfig mtp = {.method = SpeculativeMethod::kMtp, .num_speculative_tokens = 8};
  const SpeculativeConfig eagle = {.method = SpeculativeMethod::kEagle,
                                   .num_speculative_tokens = 8,
                                   .model = family_model("llama_eagle", "hf")};
  SpeculativeConfig eagle3 = eagle;
  eagle3.method = SpeculativeMethod::kEagle3;
  eagle3.model = family_model("llama_eagle3", "hf");
  SpeculativeConfig medusa = config_of(R"({"method": "medusa", "model": "heads",
                                           "num_speculative_tokens": 12})");
  medusa.model = family_model("llama_medusa", "hf");
  for (const auto& [model, speculation] : std::vector<std::pair<std::string, SpeculativeConfig>>{
           {family_model("glm4_moe_mtp", "hf"), mtp},
           {family_model("deepseek_v3_mtp", "hf"), mtp},
           {family_model("llama", "hf"), eagle},
           {family_model("llama", "hf"), eagle3},
           {family_model("llama", "hf"), medusa}}) {
    const auto plain = make_engine(std::nullopt, model);
    ASSERT_TRUE(plain.ok()) << plain.status().to_string();
    const auto expected = outputs_of(**plain, std::nullopt);
    const auto engine = make_engine(speculation, model);
    ASSERT_TRUE(engine.ok()) << engine.status().to_string();
    EXPECT_GT((*engine)->info().plan.draft_bytes, 0U);
    for (const std::optional<std::int32_t> drafts :
         std::vector<std::optional<std::int32_t>>{std::nullopt, 1, 8}) {
      const EngineStats before = (*engine)->observe();
      expect_same(outputs_of(**engine, drafts), expected);
      const std::int64_t drafted = (*engine)->observe().draft_tokens - before.draft_tokens;
      if (drafts) {
        EXPECT_GT(drafted, 500);
      }
    }
  }
}

TEST(Speculation, DraftModelsThatDoNotFitAreRefused) {
  const auto status_of = [](const SpeculativeConfig& config) {
    return make_engine(config).status();
  };
  const Status other = status_of(by_model(family_model("llama", "hf"), 4));
  EXPECT_EQ(other.code(), StatusCode::kConfig);
  EXPECT_THAT(other.message(), HasSubstr("the draft model has 128 tokens"));
  const Status missing = status_of(by_model("/nowhere", 4));
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_THAT(missing.message(), HasSubstr("the draft model: "));

  EngineArgs args;
  args.model = tiny_llama("hf");
  args.speculation = by_model(args.model, 4);
  args.max_steps_in_flight = 2;
  EXPECT_THAT(Engine::create(args, {}).status().message(), HasSubstr("in flight"));
}

TEST(Speculation, AcceptanceByPlaceAddsUp) {
  const auto engine = make_engine(ngram());
  ASSERT_TRUE(engine.ok());
  outputs_of(**engine, 4);
  const EngineStats stats = (*engine)->observe();
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < stats.draft_tokens_accepted_at.size(); ++i) {
    sum += stats.draft_tokens_accepted_at[i];
    if (i > 0) {
      EXPECT_LE(stats.draft_tokens_accepted_at[i], stats.draft_tokens_accepted_at[i - 1]);
    }
    if (i >= 4) {
      EXPECT_EQ(stats.draft_tokens_accepted_at[i], 0);
    }
  }
  EXPECT_EQ(sum, stats.draft_tokens_accepted);
  EXPECT_LE(stats.draft_tokens_accepted_at[0], stats.num_drafted_rows);
}

TEST(Speculation, EmbeddingsHaveNone) {
  EngineArgs args;
  args.model = tiny_llama("hf");
  args.threads = 1;
  args.max_num_seqs = 2;
  args.max_model_len = 200;
  args.pooling_type = "mean";
  args.speculation = ngram();
  const auto engine = Engine::create(args, {});
  ASSERT_TRUE(engine.ok()) << engine.status().to_string();
  Collector collector(1);
  GenerateRequest request;
  request.prompt_token_ids = prompt_of(3);
  request.embed = true;
  ASSERT_TRUE((*engine)->submit(std::move(request), collector.sink(0)).ok());
  collector.wait_for(1);
  EXPECT_EQ((*engine)->observe().draft_tokens, 0);
}

TEST(Speculation, WhatCannotBeIsRefused) {
  const auto plain = make_engine(std::nullopt);
  ASSERT_TRUE(plain.ok());
  const auto status_of = [](const Engine& engine, std::int32_t drafts) {
    GenerateRequest request;
    request.prompt_token_ids = prompt_of(0);
    request.drafts = drafts;
    return engine.check(request);
  };
  EXPECT_TRUE(status_of(**plain, 0).ok());
  EXPECT_THAT(status_of(**plain, 2).to_string(), HasSubstr("--speculative-config"));
  const auto engine = make_engine(ngram());
  ASSERT_TRUE(engine.ok());
  EXPECT_TRUE(status_of(**engine, 32).ok());
  EXPECT_THAT(status_of(**engine, 33).message(), HasSubstr("1 to 32"));
  EXPECT_EQ(status_of(**engine, -1).code(), StatusCode::kInvalidArgument);

  EngineArgs args;
  args.model = tiny_llama("hf");
  args.speculation = ngram();
  args.batching = "static";
  const auto statics = Engine::create(args, {});
  EXPECT_EQ(statics.status().code(), StatusCode::kConfig);
  EXPECT_THAT(statics.status().message(), HasSubstr("--speculative-config"));
}

}  // namespace
}  // namespace quire::test
