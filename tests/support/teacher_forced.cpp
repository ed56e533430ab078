#include "support/teacher_forced.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <gtest/gtest.h>

#include "support/golden.h"

namespace quire::test {
namespace {

struct TeacherForced {
  std::int64_t positions = 0;
  std::int64_t differing = 0;  // best token is not the reference's
  double largest_gap = 0;      // of the reference's two best, where it differs
  double nll = 0;              // sums over positions
  double reference_nll = 0;
};

// log(sum of exp(row - best)); terms too small to change the sum are passed over.
double log_sum_exp(const float* row, std::int64_t vocab, float best) {
  double sum = 0;
  for (std::int64_t t = 0; t < vocab; ++t) {
    const float below = row[t] - best;
    if (!(below < -40.0F)) sum += std::exp(static_cast<double>(below));
  }
  return std::log(sum);
}

void compare(Scorer& scorer, const json::value& prompt, std::size_t num_positions,
             TeacherForced& result) {
  std::vector<TokenId> tokens = token_ids(prompt.at("prompt_token_ids"));
  const auto first = static_cast<std::int64_t>(tokens.size()) - 1;
  std::vector<TokenId> reference = token_ids(prompt.at("tokens"));
  reference.resize(std::min(reference.size(), num_positions));
  tokens.insert(tokens.end(), reference.begin(), reference.end() - 1);
  const auto logits = scorer.score(tokens, first);
  const std::int64_t vocab = scorer.vocab_size();
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const float* row = logits.data() + static_cast<std::int64_t>(i) * vocab;
    const float* best = std::max_element(row, row + vocab);
    result.nll -= row[reference[i]] - (*best + log_sum_exp(row, vocab, *best));
    result.reference_nll -= prompt.at("logprob").at(i).to_number<double>();
    ++result.positions;
    if (best - row == reference[i]) continue;
    ++result.differing;
    result.largest_gap =
        std::max(result.largest_gap, prompt.at("logit_best").at(i).to_number<double>() -
                                         prompt.at("logit_second").at(i).to_number<double>());
  }
}

}  // namespace

std::size_t num_prompts_at(IsaLevel level) {
  if (level == IsaLevel::kRef) return 2;
  return level == available_levels().back() ? 40 : 10;
}

void check_teacher_forced(const TeacherForcedCase& test, double allowed_gap, double allowed_nll) {
  auto scorer = Scorer::open(test.model, test.level, test.mode, test.kv_dtype, test.max_tokens);
  ASSERT_TRUE(scorer.ok()) << scorer.status().to_string();
  TeacherForced result;
  for (std::size_t i = 0; i < test.num_prompts; ++i) {
    compare(**scorer, test.goldens.at("prompts").at(i), test.num_positions, result);
  }
  const double nll = result.nll / static_cast<double>(result.positions);
  const double reference_nll = result.reference_nll / static_cast<double>(result.positions);
  std::printf(
      "%s: %lld of %lld best tokens differ (largest gap %.4f), mean NLL %.6f, reference "
      "%.6f (%.3f%%)\n",
      std::string(isa_level_name(test.level)).c_str(), static_cast<long long>(result.differing),
      static_cast<long long>(result.positions), result.largest_gap, nll, reference_nll,
      (nll / reference_nll - 1) * 100);
  EXPECT_LE(result.largest_gap, allowed_gap);
  EXPECT_NEAR(nll / reference_nll, 1.0, allowed_nll);
}

}  // namespace quire::test
