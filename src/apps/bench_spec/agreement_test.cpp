#include "apps/bench_spec/agreement.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace quire {
namespace {

// The token at `uniform` of the softmax of some logits, in order of id.
std::size_t token_at(const std::vector<float>& logits, double uniform) {
  double total = 0;
  for (const float logit : logits) total += std::exp(double{logit});
  double end = 0;
  for (std::size_t i = 0; i + 1 < logits.size(); ++i) {
    end += std::exp(double{logits[i]}) / total;
    if (uniform < end) return i;
  }
  return logits.size() - 1;
}

TEST(Agreement, IsHowOftenDrawsWithOneNumberAreTheSame) {
  const std::vector<float> target = {0.1F, 2.0F, -1.0F, 1.5F, 0.0F, 0.7F};
  const std::vector<float> draft = {0.4F, 1.2F, -0.5F, 2.5F, -2.0F, 0.7F};
  const Agreement agreement = agreement_of(target, draft);
  constexpr int kDraws = 200'000;
  int same = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double uniform = (i + 0.5) / kDraws;
    same += token_at(target, uniform) == token_at(draft, uniform) ? 1 : 0;
  }
  EXPECT_NEAR(agreement.one_number, static_cast<double>(same) / kDraws, 1e-4);
  EXPECT_EQ(agreement.best, 0);
  // No way to draw two tokens makes them the same more often (Lindvall 2002, the coupling
  // inequality).
  EXPECT_LT(agreement.one_number, agreement.rejection);
  EXPECT_LT(agreement.rejection, 1);
}

TEST(Agreement, IsAllForTheSameLogitsAndNoneForOthers) {
  const std::vector<float> logits = {3, 1, 2};
  const Agreement same = agreement_of(logits, logits);
  EXPECT_EQ(same.best, 1);
  EXPECT_NEAR(same.one_number, 1, 1e-12);
  EXPECT_NEAR(same.rejection, 1, 1e-12);
  const Agreement other =
      agreement_of(std::vector<float>{100, 0, 0}, std::vector<float>{0, 0, 100});
  EXPECT_EQ(other.best, 0);
  EXPECT_NEAR(other.one_number, 0, 1e-12);
  EXPECT_NEAR(other.rejection, 0, 1e-12);
}

}  // namespace
}  // namespace quire
