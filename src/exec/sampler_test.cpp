// The sampler at the edges: what is left when bans collide, extreme parameters, damaged logits, log
// probabilities, and tokens that depend on nothing but their own row.
#include "exec/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exec/sampling_test_support.h"

namespace quire {
namespace {

using ::testing::ElementsAre;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TokenId sampled(const SamplingCase& c, const std::vector<float>& logits) {
  SamplerUnderTest sampler(std::ssize(logits), 1, 1, c.eos_token_ids);
  const std::vector<TokenId> token_ids = c.token_ids();
  const std::vector<InputBatch::SampleRow> rows = {
      {.context = {&c.params, token_ids, static_cast<std::int32_t>(c.prompt.size())}, .seed = 1}};
  ModelRunnerOutput output;
  const Status status = sampler.sample(logits, rows, output);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return output.sampled.at(0).token_id;
}

TEST(LogitEdits, LeaveLogitsAloneWithoutParameters) {
  const std::vector<float> logits = random_logits(50, 2, 1);
  SamplingCase c;
  c.prompt = {1, 2};
  c.output = {3, 4};
  EXPECT_EQ(edited(c, logits), logits);
}

// Bans apply among the tokens that it leaves.
TEST(LogitEdits, AMaskLeavesOnlyItsTokens) {
  SamplingParams params;
  params.min_tokens = 1;
  const std::vector<TokenId> prompt = {7};
  const std::vector<std::uint32_t> mask = {1U << 2 | 1U << 31, 1U << 1};  // 2, 31, 33
  const SampleContext context = {&params, prompt, 1, mask};
  const std::vector<TokenId> eos = {31};
  const std::vector<float> logits = edited(context, eos, std::vector<float>(70, 1.0F));
  for (std::size_t i = 0; i < logits.size(); ++i) {
    EXPECT_EQ(std::isfinite(logits[i]), i == 2 || i == 33) << i;
  }
}

TEST(LogitEdits, NeverBanTheLastTokenThatIsLeft) {
  SamplingCase c;
  c.params.allowed_token_ids = {2, 3};
  c.params.bad_words_token_ids = {{2}, {3}};
  EXPECT_THAT(edited(c, {9, 8, 1, 2}), ElementsAre(-kInfinity, -kInfinity, 1, 2));
  c.params.bad_words_token_ids = {{2}};
  EXPECT_THAT(edited(c, {9, 8, 1, 2}), ElementsAre(-kInfinity, -kInfinity, -kInfinity, 2));

  SamplingCase only_end;
  only_end.params.allowed_token_ids = {1};
  only_end.params.min_tokens = 4;
  only_end.params.stop_token_ids = {1};  // banned twice
  only_end.eos_token_ids = {1};
  EXPECT_THAT(edited(only_end, {5, 4, 3}), ElementsAre(-kInfinity, 4, -kInfinity));
}

TEST(LogitEdits, ForgetTheRequestBefore) {
  LogitEditor editor(4);
  SamplingParams params;
  params.repetition_penalty = 2;
  params.frequency_penalty = 1;
  const std::vector<TokenId> first = {0, 1, 1};
  const std::vector<TokenId> second = {2, 3};
  std::vector<float> logits = {4, 4, 4, 4};
  editor.apply(edits_of({&params, first, 1}, {}), logits);
  EXPECT_THAT(logits, ElementsAre(2, 0, 4, 4));
  logits = {4, 4, 4, 4};
  editor.apply(edits_of({&params, second, 1}, {}), logits);
  EXPECT_THAT(logits, ElementsAre(4, 4, 2, 1));
}

TEST(LogitEdits, TellWhetherTheyAreNeeded) {
  SamplingCase c;
  c.output = {1};
  const SampleContext context = {&c.params, c.output, 0};
  const std::vector<TokenId> eos = {3};
  const auto needed = [&] {
    std::vector<TokenId> bans;
    append_bans(context, eos, bans);
    return !edits_of(context, bans).empty();
  };
  EXPECT_FALSE(needed());
  c.params.min_tokens = 1;
  EXPECT_FALSE(needed());
  c.params.min_tokens = 2;
  EXPECT_TRUE(needed());
  c.params.ignore_eos = true;
  EXPECT_FALSE(needed());
  c.params.frequency_penalty = 0.5;
  EXPECT_TRUE(needed());
}

// Every value that validation lets through gives a token that may be drawn.
TEST(Sampler, ExtremeParametersDrawTokensThatAreAllowed) {
  const std::vector<float> logits = {-3, 5, 2, -1, 0.5F, 4};
  for (const double temperature : {0.0, 1.1e-5, 1e-3, 10.0, 1000.0}) {
    for (const double penalty : {1e-300, 1e-30, 1.0, 1e30, 1e300}) {
      for (const float bias : {-100.0F, 0.0F, 100.0F}) {
        SCOPED_TRACE(testing::Message() << temperature << " " << penalty << " " << bias);
        SamplingCase c;
        c.params.temperature = temperature;
        c.params.repetition_penalty = penalty;
        c.params.logit_bias = {{0, bias}, {1, bias}};
        c.params.allowed_token_ids = {0, 1, 3};
        c.prompt = {0, 1, 2, 3};
        c.output = {5, 4, 3};
        ASSERT_TRUE(c.params.validate(6).ok());
        EXPECT_THAT(sampled(c, logits), ::testing::AnyOf(0, 1, 3));
      }
    }
  }
}

TEST(Sampler, TinyTopPAndMinPOfOneTakeTheBest) {
  const std::vector<float> logits = {1, 3, 3, 2};
  SamplingCase c;
  c.params.top_p = 1e-300;
  EXPECT_EQ(sampled(c, logits), 1);
  c.params.top_p = 1;
  c.params.top_k = 1;
  EXPECT_EQ(sampled(c, logits), 1);
  c.params.top_k = -1;
  c.params.min_p = 1;
  EXPECT_THAT(sampled(c, logits), ::testing::AnyOf(1, 2));
}

TEST(Sampler, GreedyStillObeysBansBiasesAndPenalties) {
  const std::vector<float> logits = {1, 5, 4, 2};
  SamplingCase c;
  c.params.temperature = 0;
  EXPECT_EQ(sampled(c, logits), 1);
  c.params.bad_words_token_ids = {{1}};
  EXPECT_EQ(sampled(c, logits), 2);
  c.params.logit_bias = {{3, 10.0F}};
  EXPECT_EQ(sampled(c, logits), 3);
  c.params.logit_bias = {};
  c.params.repetition_penalty = 5;
  c.prompt = {2};
  EXPECT_EQ(sampled(c, logits), 3);
}

TEST(Sampler, RefusesLogitsThatAreNotFinite) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::vector<float>& logits : {std::vector<float>{nan, nan, nan},
                                           {kInfinity, 1, 2},
                                           {1, 2, nan},
                                           {nan, 2, 3},
                                           {-kInfinity, -kInfinity, -kInfinity}}) {
    SamplerUnderTest sampler(3, 1, 1);
    const SamplingParams params;
    const std::vector<TokenId> prompt = {1};
    ModelRunnerOutput output;
    const std::vector<InputBatch::SampleRow> rows = {
        {.request_id = 12, .context = {&params, prompt, 1}}};
    const Status status = sampler.sample(logits, rows, output);
    ASSERT_FALSE(status.ok()) << logits[0] << " " << logits[1] << " " << logits[2];
    EXPECT_EQ(status.code(), StatusCode::kBadModel);
    EXPECT_THAT(status.message(), ::testing::HasSubstr("request 12"));
    const std::vector<InputBatch::PromptRow> prompt_rows = {{.request_id = 12, .token_id = 1}};
    EXPECT_EQ(sampler.score(logits, prompt_rows, output).code(), StatusCode::kBadModel);
  }
}

TEST(Sampler, LogProbabilitiesAreTheModelsOwn) {
  constexpr std::size_t kVocabSize = 500;
  std::vector<float> logits = random_logits(kVocabSize, 2, 3);
  for (float& logit : logits) logit = std::round(logit * 4) / 4;  // ties go to the lower id
  std::vector<std::size_t> order(kVocabSize);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  double total = 0;
  for (const float logit : logits) total += std::exp(static_cast<double>(logit));
  const auto logprob = [&](std::size_t t) {
    return static_cast<double>(logits[t]) - std::log(total);
  };

  SamplerUnderTest sampler(kVocabSize, 4, 2);
  SamplingParams params;
  params.temperature = 0.2;  // changes which token is drawn, not its log probability
  params.logit_bias = {{77, 50.0F}};
  const std::vector<TokenId> prompt = {1};
  std::vector<float> rows_logits;
  std::vector<InputBatch::SampleRow> rows;
  std::vector<InputBatch::PromptRow> prompt_rows;
  std::vector<SamplingParams> asked(4, params);
  asked[1].logprobs = 0;
  asked[2].logprobs = 20;
  asked[3].logprobs = 1;
  for (std::size_t i = 0; i < 4; ++i) {
    rows_logits.insert(rows_logits.end(), logits.begin(), logits.end());
    rows.push_back({.request_id = i, .context = {&asked[i], prompt, 1}});
    prompt_rows.push_back({.request_id = i,
                           .position = 5,
                           .token_id = static_cast<TokenId>(order[i * 9]),
                           .num_top_logprobs = static_cast<std::int32_t>(i)});
  }
  ModelRunnerOutput output;
  ASSERT_TRUE(sampler.score(rows_logits, prompt_rows, output).ok());
  ASSERT_TRUE(sampler.sample(rows_logits, rows, output).ok());

  const auto expect_best = [&](std::int32_t first, std::int32_t count) {
    for (std::int32_t i = 0; i < count; ++i) {
      const TokenLogprob& top =
          output.top_logprobs.at(static_cast<std::size_t>(first) + static_cast<std::size_t>(i));
      const std::size_t wanted = order[static_cast<std::size_t>(i)];
      EXPECT_EQ(top.token_id, static_cast<TokenId>(wanted));
      EXPECT_EQ(top.rank, i + 1);
      EXPECT_NEAR(top.logprob, logprob(wanted), 1e-5);
    }
  };
  ASSERT_EQ(output.prompt_tokens.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    const PromptToken& token = output.prompt_tokens[i];
    EXPECT_EQ(token.token.rank, static_cast<std::int32_t>(i * 9) + 1);
    EXPECT_NEAR(token.token.logprob, logprob(order[i * 9]), 1e-5);
    ASSERT_EQ(token.num_top_logprobs, static_cast<std::int32_t>(i));
    expect_best(token.first_top_logprob, token.num_top_logprobs);
  }
  const std::vector<std::int32_t> counts = {0, 0, 20, 1};
  const auto rank_of_77 = std::ranges::find(order, 77U) - order.begin() + 1;
  for (std::size_t i = 0; i < 4; ++i) {
    const SampledToken& token = output.sampled.at(i);
    EXPECT_EQ(token.token_id, 77);
    if (i == 0) {  // did not ask
      EXPECT_EQ(token.logprob, 0.0F);
      EXPECT_EQ(token.rank, 0);
    } else {
      EXPECT_NEAR(token.logprob, logprob(77), 1e-5);
      EXPECT_EQ(token.rank, rank_of_77);
    }
    ASSERT_EQ(token.num_top_logprobs, counts[i]);
    expect_best(token.first_top_logprob, token.num_top_logprobs);
  }
  // Of one row there is one sum, whoever asks and however the choice was biased.
  const auto of_best = [&](const auto& token) {
    return output.top_logprobs.at(static_cast<std::size_t>(token.first_top_logprob)).logprob;
  };
  EXPECT_EQ(of_best(output.sampled[2]), of_best(output.prompt_tokens[3]));
}

// 32 requests with mixed parameters: the same tokens and log probabilities alone and together, on
// one thread and on several, in any row.
TEST(Sampler, ATokenDependsOnItsOwnRowAlone) {
  constexpr std::size_t kRows = 32;
  constexpr std::size_t kVocabSize = 1500;
  std::vector<SamplingCase> cases(kRows);
  std::vector<std::vector<TokenId>> token_ids(kRows);
  std::vector<std::vector<float>> logits(kRows);
  for (std::size_t i = 0; i < kRows; ++i) {
    logits[i] = random_logits(kVocabSize, 2, static_cast<std::uint32_t>(i));
    SamplingCase& c = cases[i];
    SamplingParams& params = c.params;
    params.temperature = i % 5 == 0 ? 0.0 : 0.6 + 0.1 * static_cast<double>(i % 9);
    if (i % 3 == 1) params.top_k = 40;
    if (i % 4 == 1) params.top_p = 0.9;
    if (i % 4 == 2) params.min_p = 0.02;
    if (i % 2 == 1) params.repetition_penalty = 1.2;
    if (i % 3 == 2) params.frequency_penalty = 0.5;
    if (i % 6 == 3) params.presence_penalty = 0.5;
    if (i % 7 == 1) params.allowed_token_ids = {5, 6, 7, 100, 1000, 1200};
    if (i % 7 == 2) params.bad_words_token_ids = {{5}, {2, 2, 9}};
    if (i % 7 == 3) params.min_tokens = 30;
    if (i % 7 == 4) params.logit_bias = {{3, 4.0F}};
    if (i % 4 == 3) params.logprobs = static_cast<std::int64_t>(i % 6);
    c.prompt = {1, 2, 3, static_cast<TokenId>(i)};
    c.output.assign(i, 2);
    token_ids[i] = c.token_ids();
  }
  struct Answer {
    TokenId token_id;
    float logprob;
    std::int32_t rank;
    std::vector<std::pair<TokenId, float>> top;
    bool operator==(const Answer&) const = default;
  };
  const auto answers = [&](const std::vector<std::size_t>& order, int threads) {
    SamplerUnderTest sampler(kVocabSize, kRows, threads, {3});
    std::vector<float> all;
    std::vector<InputBatch::SampleRow> rows;
    for (const std::size_t i : order) {
      all.insert(all.end(), logits[i].begin(), logits[i].end());
      rows.push_back(
          {.request_id = i, .context = {&cases[i].params, token_ids[i], 4}, .seed = 900 + i});
    }
    ModelRunnerOutput output;
    EXPECT_TRUE(sampler.sample(all, rows, output).ok());
    std::vector<Answer> found(kRows);
    for (const SampledToken& token : output.sampled) {
      Answer& answer = found[token.request_id];
      answer = {token.token_id, token.logprob, token.rank, {}};
      for (std::int32_t t = 0; t < token.num_top_logprobs; ++t) {
        const auto& top = output.top_logprobs[static_cast<std::size_t>(token.first_top_logprob) +
                                              static_cast<std::size_t>(t)];
        answer.top.emplace_back(top.token_id, top.logprob);
      }
    }
    return found;
  };
  std::vector<std::size_t> order(kRows);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::vector<Answer> wanted = answers(order, 1);
  EXPECT_EQ(answers(order, 2), wanted);
  EXPECT_EQ(answers(order, 5), wanted);
  std::ranges::reverse(order);
  EXPECT_EQ(answers(order, 2), wanted);
  for (const std::size_t i : order) EXPECT_EQ(answers({i}, 1)[i], wanted[i]) << i;
}

TEST(Sampler, CountsItsMemory) {
  EXPECT_GE(Sampler::bytes(10, 8), 8 * sizeof(SampleArgs));
  EXPECT_GT(Sampler::bytes(10, 9), Sampler::bytes(10, 8));
  EXPECT_GE(Sampler::bytes(1000, 8), std::uint64_t{1000} * sizeof(float));
  const auto on_device = [](std::int64_t vocab_size, std::int64_t rows, int threads) {
    return cpu_stream_memory({.vocab_size = vocab_size, .max_sampled_rows = rows}, threads)
        .sampling;
  };
  EXPECT_GE(on_device(1000, 8, 2), std::uint64_t{2} * 1000 * sizeof(float));
  EXPECT_GT(on_device(1000, 8, 3), on_device(1000, 8, 2));
  EXPECT_GT(on_device(1000, 9, 2), on_device(1000, 8, 2));
}

}  // namespace
}  // namespace quire
