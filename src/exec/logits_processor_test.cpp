// A caller's own code between the model's logits and the choice of a token.
#include <functional>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exec/sampling_test_support.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInfinite = std::numeric_limits<float>::infinity();

using Process = std::function<Status(std::span<const TokenId>, std::span<float>)>;

class Calling : public LogitsProcessor {
 public:
  explicit Calling(Process call) : call_(std::move(call)) {}
  Status process(std::span<const TokenId> output, std::span<float> logits) override {
    return call_(output, logits);
  }

 private:
  Process call_;
};

SamplingParams greedy(Process call = nullptr) {
  SamplingParams params;
  params.temperature = 0;
  if (call) params.logits_processor = std::make_shared<Calling>(std::move(call));
  return params;
}

// One row of four logits for each of `params`.
struct Rows {
  std::vector<SamplingParams> params;
  std::vector<float> logits;
  std::vector<TokenId> token_ids = {3, 1, 2};  // the first is the prompt

  Status sample(ModelRunnerOutput& output) const {
    SamplerUnderTest sampler(4, std::ssize(params), 2);
    std::vector<InputBatch::SampleRow> rows;
    for (const SamplingParams& each : params) {
      rows.push_back({.request_id = rows.size() + 1, .context = {&each, token_ids, 1}, .seed = 1});
    }
    return sampler.sample(logits, rows, output);
  }
};

TEST(LogitsProcessor, ChangesItsOwnRowAlone) {
  std::vector<TokenId> seen;
  const auto reverse = [&seen](std::span<const TokenId> output, std::span<float> logits) {
    seen.assign(output.begin(), output.end());
    std::ranges::reverse(logits);
    return Status();
  };
  const Rows rows = {.params = {greedy(), greedy(reverse), greedy(reverse), greedy()},
                     .logits = {9, 1, 1, 2, 9, 1, 1, 2, 1, 2, 9, 3, 1, 2, 9, 3}};
  ModelRunnerOutput output;
  ASSERT_TRUE(rows.sample(output).ok());
  std::vector<TokenId> tokens;
  for (const SampledToken& token : output.sampled) tokens.push_back(token.token_id);
  EXPECT_THAT(tokens, ElementsAre(0, 3, 1, 2));
  EXPECT_THAT(seen, ElementsAre(1, 2));
  EXPECT_TRUE(output.failed.empty());
}

TEST(LogitsProcessor, LogProbabilitiesAreTheModels) {
  const auto only_last = [](std::span<const TokenId>, std::span<float> logits) {
    for (float& logit : logits.first(3)) logit = -kInfinite;
    return Status();
  };
  Rows rows = {.params = {greedy(only_last), greedy()}, .logits = {4, 2, 1, 3, 4, 2, 1, 3}};
  for (SamplingParams& params : rows.params) params.logprobs = 2;
  rows.params[1].allowed_token_ids = {3};
  ModelRunnerOutput output;
  ASSERT_TRUE(rows.sample(output).ok());
  const SampledToken& own = output.sampled[0];
  EXPECT_EQ(own.token_id, 3);
  EXPECT_EQ(own.rank, 2);
  EXPECT_EQ(own.logprob, output.sampled[1].logprob);
  EXPECT_EQ(output.top_logprobs[0].token_id, 0);
  EXPECT_EQ(output.top_logprobs[0].logprob, output.top_logprobs[2].logprob);
}

// The other parameters apply to what it has made.
TEST(LogitsProcessor, GoesBeforeAllElse) {
  const auto add = [](std::span<const TokenId>, std::span<float> logits) {
    logits[0] += 100;
    logits[1] += 50;
    return Status();
  };
  Rows rows = {.params = {greedy(add), greedy(add)}, .logits = {1, 2, 3, 4, 1, 2, 3, 4}};
  rows.params[0].allowed_token_ids = {1, 2, 3};
  rows.params[1].logit_bias = {{3, 100.0F}};
  ModelRunnerOutput output;
  ASSERT_TRUE(rows.sample(output).ok());
  EXPECT_EQ(output.sampled[0].token_id, 1);
  EXPECT_EQ(output.sampled[1].token_id, 3);
}

TEST(LogitsProcessor, WhatItSpoilsFailsAlone) {
  const auto broken = [](std::span<const TokenId>, std::span<float>) {
    return Status::invalid_argument("on purpose");
  };
  const auto not_a_number = [](std::span<const TokenId>, std::span<float> logits) {
    logits[2] = std::numeric_limits<float>::quiet_NaN();
    return Status();
  };
  const auto none = [](std::span<const TokenId>, std::span<float> logits) {
    std::ranges::fill(logits, -kInfinite);
    return Status();
  };
  const auto only_first = [](std::span<const TokenId>, std::span<float> logits) {
    for (float& logit : logits.subspan(1)) logit = -kInfinite;
    return Status();
  };
  Rows rows = {
      .params = {greedy(broken), greedy(not_a_number), greedy(), greedy(none), greedy(only_first)},
      .logits = {}};
  for (std::size_t i = 0; i < rows.params.size(); ++i) {
    rows.logits.insert(rows.logits.end(), {1, 2, 4, 3});
  }
  rows.params[4].allowed_token_ids = {1, 2};
  ModelRunnerOutput output;
  ASSERT_TRUE(rows.sample(output).ok());
  EXPECT_EQ(output.sampled[2].token_id, 2);
  ASSERT_EQ(output.failed.size(), 4U);
  const std::vector<std::string> reasons = {"on purpose", "the logit of token 2 became nan",
                                            "no token is left", "no token is left"};
  const std::vector<RequestId> failed = {1, 2, 4, 5};
  for (std::size_t i = 0; i < failed.size(); ++i) {
    EXPECT_EQ(output.failed[i].request_id, failed[i]);
    EXPECT_THAT(output.failed[i].reason.message(), HasSubstr(reasons[i]));
  }
}

TEST(LogitsProcessor, IsNotAskedAboutDamagedLogits) {
  bool called = false;
  const auto note = [&called](std::span<const TokenId>, std::span<float>) {
    called = true;
    return Status();
  };
  for (const float damaged : {kInfinite, std::numeric_limits<float>::quiet_NaN()}) {
    const Rows rows = {.params = {greedy(note)}, .logits = {1, damaged, 2, 3}};
    ModelRunnerOutput output;
    EXPECT_EQ(rows.sample(output).code(), StatusCode::kBadModel);
  }
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace quire
