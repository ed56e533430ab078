// The experts of rows on a GPU are those of the CPU, near equals and what is not a number too.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/cuda_test_support.h"

namespace quire {
namespace cuda_route_test {

using Floats = std::vector<float>;

struct Mixture {
  std::int64_t num_experts = 0;
  std::int64_t experts_per_row = 0;
  std::int32_t num_groups = 1;
  std::int32_t groups_per_row = 1;
};

struct Chosen {
  std::vector<std::int32_t> experts;
  Floats weights;
};

class CudaRoute : public CudaOps {
 protected:
  static constexpr std::int64_t kRows = 16;

  static Chosen choose(DeviceUnderTest& on, const Mixture& mixture, const Routing& routing,
                       const Floats& logits, const Floats& bias) {
    on.ops->begin_step();
    const auto scores = on.array(logits);
    const auto biases = on.array(bias);
    const auto count = static_cast<std::size_t>(kRows * mixture.experts_per_row);
    const auto experts = on.array(std::vector<std::int32_t>(count));
    const auto weights = on.array(Floats(count));
    on.ops->route({.logits = scores.data(),
                   .rows = kRows,
                   .num_experts = mixture.num_experts,
                   .experts_per_row = mixture.experts_per_row,
                   .routing = routing,
                   .choice_bias = bias.empty() ? nullptr : biases.data(),
                   .experts = experts.data(),
                   .weights = weights.data()});
    return {experts.read(*on.ops), weights.read(*on.ops)};
  }

  // Normal numbers; many equal ones; some that are none, or far away.
  Floats logits_of(const Mixture& mixture, int kind) {
    Floats logits = numbers(kRows * mixture.num_experts, 2.0F);
    for (float& logit : logits) {
      const auto chance = generator() % 20;
      if (kind == 1) logit = std::round(logit);
      if (kind == 2 && chance == 0) logit = std::nanf("");
      if (kind == 2 && chance == 1) logit = -std::numeric_limits<float>::infinity();
      if (kind == 2 && chance == 2) logit = 1e30F;
    }
    return logits;
  }

  void check(const Mixture& mixture, const Routing& routing) {
    for (const int kind : {0, 1, 2}) {
      for (const bool has_bias : {false, true}) {
        const Floats logits = logits_of(mixture, kind);
        const Floats bias = has_bias ? numbers(mixture.num_experts, 0.1F) : Floats();
        const Chosen expected = choose(cpu, mixture, routing, logits, bias);
        const Chosen actual = choose(gpu, mixture, routing, logits, bias);
        ASSERT_EQ(actual.experts, expected.experts) << "kind " << kind;
        for (std::size_t i = 0; i < expected.weights.size(); ++i) {
          if (std::isnan(expected.weights[i])) {
            ASSERT_TRUE(std::isnan(actual.weights[i]));
          } else {
            ASSERT_FLOAT_EQ(actual.weights[i], expected.weights[i]);
          }
        }
      }
    }
  }
};

TEST_F(CudaRoute, ExpertsAndWeightsAreThoseOfTheCpu) {
  for (const Mixture& mixture :
       {Mixture{5, 5}, Mixture{60, 4}, Mixture{64, 6, 8, 3}, Mixture{160, 6, 8, 3},
        Mixture{256, 8, 8, 4}, Mixture{512, 10}, Mixture{768, 12}}) {
    for (const RouterScore score : {RouterScore::kSoftmax, RouterScore::kSigmoid}) {
      for (const bool sum_to_one : {false, true}) {
        for (const GroupRank rank : {GroupRank::kBest, GroupRank::kSumOfTwoBest}) {
          SCOPED_TRACE(std::to_string(mixture.num_experts) + " experts");
          check(mixture, {.score = score,
                          .weights_sum_to_one = sum_to_one,
                          .min_weight_sum = sum_to_one ? 1e-20F : 0.0F,
                          .weight_scale = 2.5F,
                          .num_groups = mixture.num_groups,
                          .groups_per_row = mixture.groups_per_row,
                          .group_rank = rank});
        }
      }
    }
  }
}

}  // namespace cuda_route_test
}  // namespace quire
