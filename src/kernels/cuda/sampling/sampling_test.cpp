// Tokens that are chosen on a GPU are those of the CPU, with their log probabilities.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/cuda_test_support.h"

namespace quire {
namespace cuda_sampling_test {

using Floats = std::vector<float>;

// What is asked for of a row, with its lists.
struct Asked {
  std::vector<std::uint32_t> mask;
  std::vector<TokenId> allowed, banned, token_ids;
  std::vector<LogitBias> biases;
  LogitEdits edits;
  TokenDraw draw;
  bool wants_logprob = false;
  std::size_t num_top = 0;

  SampleArgs args(std::vector<TokenLogprob>& top) const {
    SampleArgs made = {
        .edits = edits, .draw = draw, .wants_logprob = wants_logprob, .top = std::span(top)};
    made.edits.mask = mask;
    made.edits.allowed = allowed;
    made.edits.banned = banned;
    made.edits.biases = biases;
    made.edits.token_ids = token_ids;
    return made;
  }
};

struct Sampled {
  std::vector<RowSample> samples;
  std::vector<std::vector<TokenLogprob>> tops;
};

class CudaSampling : public CudaOps {
 protected:
  static constexpr std::int64_t kVocab = 40000;  // of the streams' limits

  static RowBest best_of(std::span<const float> row) {
    RowBest best = {.value = row[0], .index = 0};
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (std::isnan(row[i])) return {.value = row[i], .index = 0};
      if (row[i] > best.value) best = {.value = row[i], .index = static_cast<std::int32_t>(i)};
    }
    return best;
  }

  static Sampled sample(DeviceUnderTest& on, const Floats& logits,
                        const std::vector<Asked>& asked) {
    Sampled sampled = {std::vector<RowSample>(asked.size()), {}};
    std::vector<RowBest> best;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      sampled.tops.emplace_back(asked[i].num_top);
      best.push_back(best_of(std::span(logits).subspan(i * kVocab, kVocab)));
    }
    std::vector<SampleArgs> args;
    for (std::size_t i = 0; i < asked.size(); ++i) args.push_back(asked[i].args(sampled.tops[i]));
    on.ops->begin_step();
    const auto values = on.array(logits);
    const auto bests = on.array(best);
    on.ops->sample(values.data(), bests.data(), args, sampled.samples);
    EXPECT_TRUE(on.ops->synchronize().ok());
    return sampled;
  }

  void check(const Floats& logits, const std::vector<Asked>& asked) {
    const Sampled expected = sample(cpu, logits, asked);
    const Sampled actual = sample(gpu, logits, asked);
    for (std::size_t i = 0; i < asked.size(); ++i) {
      SCOPED_TRACE("row " + std::to_string(i));
      ASSERT_EQ(actual.samples[i].finite, expected.samples[i].finite);
      expect_same(actual.samples[i].token, expected.samples[i].token);
      for (std::size_t k = 0; k < asked[i].num_top; ++k) {
        expect_same(actual.tops[i][k], expected.tops[i][k]);
      }
    }
  }
  static void expect_same(const TokenLogprob& actual, const TokenLogprob& expected) {
    EXPECT_EQ(actual.token_id, expected.token_id);
    EXPECT_EQ(actual.rank, expected.rank);
    if (actual.logprob != expected.logprob) {
      EXPECT_NEAR(actual.logprob, expected.logprob, 1e-5);
    }
  }

  // Normal, in steps (many are equal), nearly flat, with few large ones, with some banned.
  Floats row(int kind) {
    Floats logits = numbers(kVocab, 2.5F);
    for (float& logit : logits) {
      if (kind == 1) logit = std::round(4 * logit) / 4;
      if (kind == 2) logit = 0.01F * logit;
      if (kind == 3) logit = generator() % 2000 == 0 ? 10.0F + logit : 0.5F * logit;
      if (kind == 4 && generator() % 3 == 0) logit = -std::numeric_limits<float>::infinity();
    }
    return logits;
  }
  Floats rows_of_all_kinds(std::size_t count) {
    Floats logits;
    for (std::size_t i = 0; i < count; ++i) {
      const Floats some = row(static_cast<int>(i % 5));
      logits.insert(logits.end(), some.begin(), some.end());
    }
    return logits;
  }
  double uniform() { return std::uniform_real_distribution<double>(0.0, 1.0)(generator); }
  TokenId any_token() { return static_cast<TokenId>(generator() % kVocab); }
};

TEST_F(CudaSampling, DrawsAreThoseOfTheCpu) {
  std::vector<Asked> asked;
  for (const double temperature : {1.0, 0.3, 20.0}) {
    for (const std::int64_t top_k : {0, 1, 40, 3000}) {
      for (const double top_p : {1.0, 0.95, 0.0}) {
        for (const double min_p : {0.0, 0.03}) {
          Asked row;
          row.draw = {.temperature = temperature,
                      .top_k = top_k,
                      .top_p = top_p,
                      .min_p = min_p,
                      .uniform = uniform()};
          asked.push_back(row);
        }
      }
    }
  }
  while (asked.size() > 1) {
    const std::size_t count = std::min<std::size_t>(asked.size(), 12);
    check(rows_of_all_kinds(count), std::vector<Asked>(asked.begin(), asked.begin() + 12));
    asked.erase(asked.begin(), asked.begin() + static_cast<std::ptrdiff_t>(count));
  }
}

TEST_F(CudaSampling, LogprobsAndTheMostProbable) {
  std::vector<Asked> asked(5);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    asked[i].draw = {.greedy = i == 0, .uniform = uniform()};
    asked[i].wants_logprob = true;
    asked[i].num_top = std::array<std::size_t, 5>{0, 1, 20, 300, 5}[i];
  }
  check(rows_of_all_kinds(asked.size()), asked);
}

TEST_F(CudaSampling, RowsThatAreNotFiniteAreReported) {
  Floats logits = rows_of_all_kinds(4);
  logits[17] = std::nanf("");
  logits[kVocab + 17] = std::numeric_limits<float>::infinity();
  std::fill_n(logits.begin() + 2 * kVocab, kVocab, -std::numeric_limits<float>::infinity());
  check(logits, std::vector<Asked>(4));
}

TEST_F(CudaSampling, EditsAreThoseOfTheCpu) {
  std::vector<Asked> asked;
  for (unsigned what = 0; what < 32; ++what) {
    Asked row;
    row.draw = {.greedy = what % 4 == 0, .top_p = 0.9, .uniform = uniform()};
    row.wants_logprob = what % 3 == 0;
    for (int i = 0; i < 40; ++i) {
      if ((what & 1U) != 0) row.allowed.push_back(any_token());
      if ((what & 2U) != 0) row.biases.push_back({any_token() % 20, static_cast<float>(i % 7)});
      if ((what & 4U) != 0) row.banned.push_back(any_token());
    }
    if ((what & 8U) != 0) {
      row.mask.resize(kVocab / 32);
      for (std::uint32_t& word : row.mask) word = static_cast<std::uint32_t>(generator());
    }
    if ((what & 16U) != 0) {
      for (int i = 0; i < 300; ++i) row.token_ids.push_back(any_token() % 200);
      row.edits.num_prompt_tokens = 100;
      row.edits.repetition_penalty = 1.3;
      row.edits.presence_penalty = 0.7;
      row.edits.frequency_penalty = -0.2;
    }
    if (what == 31) row.banned = row.allowed;  // which would leave nothing
    // Something is allowed by lists and masks alike.
    if ((what & 1U) != 0) row.allowed.push_back(3);
    if ((what & 8U) != 0) row.mask[0] |= 1U << 3U;
    asked.push_back(row);
  }
  check(rows_of_all_kinds(asked.size()), asked);
}

TEST_F(CudaSampling, ScoresAreThoseOfTheCpu) {
  const Floats logits = rows_of_all_kinds(5);
  const auto score = [&](DeviceUnderTest& on) {
    std::vector<std::vector<TokenLogprob>> tops(5);
    std::vector<ScoreArgs> rows;
    std::vector<RowBest> best;
    for (std::size_t i = 0; i < 5; ++i) {
      tops[i].resize(3 * i);
      rows.push_back({.token_id = static_cast<TokenId>(977 * i), .top = tops[i]});
      best.push_back(best_of(std::span(logits).subspan(i * kVocab, kVocab)));
    }
    std::vector<RowSample> scores(5);
    on.ops->begin_step();
    const auto values = on.array(logits);
    on.ops->score(values.data(), on.array(best).data(), rows, scores);
    EXPECT_TRUE(on.ops->synchronize().ok());
    std::vector<TokenLogprob> all;
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_TRUE(scores[i].finite);
      all.push_back(scores[i].token);
      all.insert(all.end(), tops[i].begin(), tops[i].end());
    }
    return all;
  };
  const auto expected = score(cpu);
  const auto actual = score(gpu);
  for (std::size_t i = 0; i < expected.size(); ++i) expect_same(actual[i], expected[i]);
}

}  // namespace cuda_sampling_test
}  // namespace quire
