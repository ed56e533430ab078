// The tokens that a sampler draws are distributed as the parameters say: Pearson's chi-square test
// over 100,000 draws against probabilities in double precision. Seeds are fixed, so each run is the
// same.
#include <array>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "exec/sampling_test_support.h"

namespace quire {
namespace {

constexpr std::size_t kDraws = 100'000;
constexpr std::size_t kRows = 250;  // drawn at once

struct DistributionCase {
  std::string name;
  std::function<void(SamplingParams&)> set;
  // Nearly the same parameters: the test must tell the two apart.
  std::function<void(SamplingParams&)> set_wrong;
  std::size_t vocab_size = 48;
};

void PrintTo(const DistributionCase& test, std::ostream* out) { *out << test.name; }

// The tokens that the cases change are likely ones.
std::vector<float> some_logits(std::size_t vocab_size) {
  std::vector<float> logits = random_logits(vocab_size, 1.6, 5);
  for (const std::size_t id : {2, 3, 5, 8, 9, 12, 15, 40})
    logits[id] = 1.5F + 0.1F * static_cast<float>(id % 9);
  return logits;
}

SamplingCase context_of(const std::function<void(SamplingParams&)>& set) {
  SamplingCase c;
  c.prompt = {1, 5, 9, 33};
  c.output = {8, 15, 8, 40, 8, 9};
  c.params.max_tokens = 1000;
  c.eos_token_ids = {3, 17};
  set(c.params);
  return c;
}

// How often each token is drawn with seeds base, base + 1, ...
std::vector<std::size_t> draw_with_many_seeds(const SamplingCase& c, std::span<const float> logits,
                                              std::uint64_t base) {
  std::vector<float> all;
  for (std::size_t i = 0; i < kRows; ++i) all.insert(all.end(), logits.begin(), logits.end());
  SamplerUnderTest sampler(static_cast<std::int64_t>(logits.size()), kRows, 2, c.eos_token_ids);
  const std::vector<TokenId> token_ids = c.token_ids();
  const SampleContext context = {&c.params, token_ids, static_cast<std::int32_t>(c.prompt.size())};
  std::vector<std::size_t> counts(logits.size());
  std::vector<InputBatch::SampleRow> rows(kRows);
  ModelRunnerOutput output;
  for (std::size_t begin = 0; begin < kDraws; begin += kRows) {
    for (std::size_t i = 0; i < kRows; ++i)
      rows[i] = {.context = context, .seed = base + begin + i};
    output.clear();
    const Status status = sampler.sample(all, rows, output);
    if (!status.ok()) ADD_FAILURE() << status.to_string();
    for (const SampledToken& token : output.sampled) {
      ++counts[static_cast<std::size_t>(token.token_id)];
    }
  }
  return counts;
}

// How far the counts lie from the probabilities, in standard deviations of a normal distribution
// (Wilson and Hilferty's transform of chi-square); infinite if a token was drawn that cannot be.
// Tokens that are expected fewer than 10 times count together.
double deviation(const std::vector<std::size_t>& counts, const std::vector<double>& probabilities) {
  double chi_square = 0;
  int cells = 0;
  const auto add = [&](double count, double expected) {
    chi_square += (count - expected) * (count - expected) / expected;
    ++cells;
  };
  double rare_count = 0;
  double rare_expected = 0;
  for (std::size_t t = 0; t < counts.size(); ++t) {
    const auto count = static_cast<double>(counts[t]);
    const double expected = probabilities[t] * static_cast<double>(kDraws);
    if (expected == 0 && count > 0) return std::numeric_limits<double>::infinity();
    if (expected >= 10) {
      add(count, expected);
    } else {
      rare_count += count;
      rare_expected += expected;
    }
  }
  if (rare_expected >= 1) add(rare_count, rare_expected);
  const double freedom = cells - 1;
  if (freedom < 1) return 0;
  const double variance = 2 / (9 * freedom);
  return (std::cbrt(chi_square / freedom) - (1 - variance)) / std::sqrt(variance);
}

class SamplingDistribution : public ::testing::TestWithParam<DistributionCase> {};

TEST_P(SamplingDistribution, IsTheOneAskedFor) {
  const DistributionCase& test = GetParam();
  const std::vector<float> logits = some_logits(test.vocab_size);
  const SamplingCase c = context_of(test.set);
  const std::vector<std::size_t> counts = draw_with_many_seeds(c, logits, 1'000'000);
  // A correct sampler exceeds 3.7 once in ten thousand seeds.
  EXPECT_LT(deviation(counts, reference::distribution(c, logits)), 3.7);
  EXPECT_GT(deviation(counts, reference::distribution(context_of(test.set_wrong), logits)), 8.0);
}

using P = SamplingParams;
INSTANTIATE_TEST_SUITE_P(
    Transforms, SamplingDistribution,
    ::testing::Values(
        DistributionCase{"Nothing", [](P&) {}, [](P& p) { p.temperature = 1.08; }},
        DistributionCase{"Temperature", [](P& p) { p.temperature = 0.7; },
                         [](P& p) { p.temperature = 0.75; }},
        DistributionCase{"HighTemperature", [](P& p) { p.temperature = 2.5; },
                         [](P& p) { p.temperature = 2.3; }},
        DistributionCase{"TopK", [](P& p) { p.top_k = 10; }, [](P& p) { p.top_k = 9; }},
        DistributionCase{"TopKOfAll", [](P& p) { p.top_k = 48; }, [](P& p) { p.top_k = 40; }},
        DistributionCase{"TopP", [](P& p) { p.top_p = 0.8; }, [](P& p) { p.top_p = 0.7; }},
        DistributionCase{"MinP", [](P& p) { p.min_p = 0.1; }, [](P& p) { p.min_p = 0.2; }},
        DistributionCase{"RepetitionPenalty", [](P& p) { p.repetition_penalty = 1.5; },
                         [](P& p) { p.repetition_penalty = 1.2; }},
        DistributionCase{"PresencePenalty", [](P& p) { p.presence_penalty = 1.1; },
                         [](P& p) { p.frequency_penalty = 1.1; }},
        DistributionCase{"FrequencyPenalty", [](P& p) { p.frequency_penalty = 0.6; },
                         [](P& p) { p.presence_penalty = 0.6; }},
        DistributionCase{"LogitBias",
                         [](P& p) {
                           p.logit_bias = {{2, 3.0F}, {11, -100.0F}};
                         },
                         [](P& p) {
                           p.logit_bias = {{2, 2.8F}, {11, -100.0F}};
                         }},
        DistributionCase{"AllowedTokenIds",
                         [](P& p) {
                           p.allowed_token_ids = {3, 4, 8, 20, 40};
                         },
                         [](P& p) {
                           p.allowed_token_ids = {3, 4, 8, 40};
                         }},
        DistributionCase{"BadWords",
                         [](P& p) {
                           p.bad_words_token_ids = {{2}, {8, 9, 12}, {15, 9, 13}};
                         },
                         [](P& p) {
                           p.bad_words_token_ids = {{2}, {15, 9, 13}};
                         }},
        DistributionCase{"MinTokens",
                         [](P& p) {
                           p.min_tokens = 7;
                           p.stop_token_ids = {5};
                         },
                         [](P& p) { p.stop_token_ids = {5}; }}),
    [](const auto& instance) { return instance.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Compositions, SamplingDistribution,
    ::testing::Values(
        DistributionCase{"TemperatureTopK",
                         [](P& p) {
                           p.temperature = 1.5;
                           p.top_k = 12;
                         },
                         [](P& p) { p.top_k = 12; }},
        DistributionCase{"TopKThenTopP",  // top_p of what top_k leaves, not of everything
                         [](P& p) {
                           p.top_k = 8;
                           p.top_p = 0.8;
                         },
                         [](P& p) {
                           p.top_k = 7;
                           p.top_p = 1;
                         }},
        DistributionCase{"MinPThenTopP",
                         [](P& p) {
                           p.temperature = 1.3;
                           p.min_p = 0.15;
                           p.top_p = 0.9;
                         },
                         [](P& p) {
                           p.temperature = 1.3;
                           p.top_p = 0.9;
                         }},
        DistributionCase{"PenaltiesTemperatureTopP",
                         [](P& p) {
                           p.repetition_penalty = 1.3;
                           p.presence_penalty = 0.4;
                           p.frequency_penalty = 0.3;
                           p.temperature = 0.9;
                           p.top_p = 0.95;
                         },
                         [](P& p) {
                           p.repetition_penalty = 1.3;
                           p.frequency_penalty = 0.3;
                           p.temperature = 0.9;
                           p.top_p = 0.95;
                         }},
        DistributionCase{"BiasAllowedTopK",
                         [](P& p) {
                           p.logit_bias = {{8, 2.0F}, {12, -1.0F}};
                           p.allowed_token_ids = {2, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44};
                           p.top_k = 6;
                         },
                         [](P& p) {
                           p.logit_bias = {{8, 2.0F}};
                           p.allowed_token_ids = {2, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44};
                           p.top_k = 6;
                         }},
        DistributionCase{"Everything",
                         [](P& p) {
                           p.allowed_token_ids = {};
                           for (TokenId id = 0; id < 550; ++id) p.allowed_token_ids.push_back(id);
                           p.bad_words_token_ids = {{6}, {8, 9, 12}};
                           p.logit_bias = {{20, 2.5F}, {21, -1.0F}};
                           p.min_tokens = 7;
                           p.stop_token_ids = {5, 30};
                           p.repetition_penalty = 1.2;
                           p.presence_penalty = 0.3;
                           p.frequency_penalty = 0.2;
                           p.temperature = 0.8;
                           p.min_p = 0.01;
                           p.top_k = 100;
                           p.top_p = 0.9;
                         },
                         [](P& p) {
                           p.temperature = 0.8;
                           p.min_p = 0.01;
                           p.top_k = 100;
                           p.top_p = 0.9;
                         },
                         600}),
    [](const auto& instance) { return instance.param.name; });

// One request's stream: the same seed at 100,000 positions.
TEST(SamplingStream, OfOneSeedIsDistributedAsTheLogitsSay) {
  const std::vector<float> logits = random_logits(48, 1.6, 5);
  SamplingCase c;
  const std::vector<TokenId> text(kDraws);
  SamplerUnderTest sampler(48, 1, 1);
  std::vector<std::size_t> counts(48);
  std::vector<TokenId> stream;
  ModelRunnerOutput output;
  for (std::size_t position = 0; position < kDraws; ++position) {
    const std::array rows = {InputBatch::SampleRow{
        .context = {&c.params, std::span(text).first(position), 0}, .seed = 42}};
    output.clear();
    ASSERT_TRUE(sampler.sample(logits, rows, output).ok());
    stream.push_back(output.sampled[0].token_id);
    ++counts[static_cast<std::size_t>(stream.back())];
  }
  const std::vector<double> wanted = reference::distribution(c, logits);
  EXPECT_LT(deviation(counts, wanted), 3.7);

  // Neighbours in the stream are independent: how often both are the best token.
  const auto best = static_cast<std::size_t>(std::ranges::max_element(wanted) - wanted.begin());
  std::size_t pairs = 0;
  for (std::size_t i = 0; i + 1 < kDraws; ++i) {
    const auto is_best = [&](TokenId id) { return static_cast<std::size_t>(id) == best; };
    if (is_best(stream[i]) && is_best(stream[i + 1])) ++pairs;
  }
  const double p = wanted[best] * wanted[best];
  // Overlapping pairs: variance p + 2 best^3 - 3 p^2 a draw.
  const double variance = p + 2 * p * wanted[best] - 3 * p * p;
  EXPECT_NEAR(static_cast<double>(pairs), p * kDraws, 4 * std::sqrt(variance * kDraws));
}

}  // namespace
}  // namespace quire
