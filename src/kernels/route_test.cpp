// A mixture of experts: which experts a row goes to, and with which weights.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/route_test_support.h"
#include "kernels/row_ops_test_support.h"

namespace quire {
namespace route_test {

using Values = std::vector<float>;
using Experts = std::vector<std::int32_t>;

constexpr Routing kScores = {};
constexpr Routing kSumToOne = {.weights_sum_to_one = true};

float sigmoid(double x) { return static_cast<float>(1 / (1 + std::exp(-x))); }

TEST(Route, TakesTheLargestAndTheLowerExpertAmongEquals) {
  const Values logits = {1, 3, 3, 0, 2, /*second row*/ 5, 5, 5, 5, 5};
  const Routed all = routed(logits, 2, 3, kScores);
  EXPECT_EQ(all.experts, Experts({1, 2, 4, 0, 1, 2}));
  const double sum = std::exp(1 - 3.0) + 2 + std::exp(-3.0) + std::exp(-1.0);
  EXPECT_NEAR(all.weights[0], 1 / sum, 1e-6);
  EXPECT_NEAR(all.weights[1], 1 / sum, 1e-6);
  EXPECT_NEAR(all.weights[2], std::exp(-1.0) / sum, 1e-6);
  EXPECT_FLOAT_EQ(all.weights[3], 0.2F);

  const Routed alone = routed(logits, 2, 3, kSumToOne);
  EXPECT_EQ(alone.experts, all.experts);
  EXPECT_NEAR(alone.weights[2], std::exp(-1.0) / (2 + std::exp(-1.0)), 1e-6);
  EXPECT_NEAR(std::accumulate(alone.weights.begin(), alone.weights.begin() + 3, 0.0), 1, 1e-6);
}

TEST(Route, LargeAndSmallLogitsAreNoTrouble) {
  const Values logits = {-1e30F, 1e30F, 1000.0F, -kInfinity};
  const Routed row = routed(logits, 1, 4, kScores);
  EXPECT_EQ(row.experts, Experts({1, 2, 0, 3}));
  EXPECT_EQ(row.weights, Values({1, 0, 0, 0}));
  const Routed sigmoids = routed(logits, 1, 4, {.score = RouterScore::kSigmoid});
  EXPECT_EQ(sigmoids.experts, Experts({1, 2, 0, 3}));
  EXPECT_EQ(sigmoids.weights, Values({1, 1, 0, 0}));
}

TEST(Route, WhatIsNotANumberShowsAndNoExpertIsTakenTwice) {
  const Routing grouped = {.score = RouterScore::kSigmoid,
                           .weights_sum_to_one = true,
                           .num_groups = 2,
                           .groups_per_row = 2,
                           .group_rank = GroupRank::kSumOfTwoBest};
  for (const std::size_t at : {0, 1, 3}) {
    Values logits = {1, 4, 2, 3};
    logits[at] = kNan;
    for (const Routing& routing : {kScores, kSumToOne, grouped}) {
      Routed row = routed(logits, 1, 4, routing);
      for (const float weight : row.weights) EXPECT_TRUE(std::isnan(weight));
      std::ranges::sort(row.experts);
      EXPECT_EQ(row.experts, Experts({0, 1, 2, 3}));
    }
    Routing one_group = grouped;
    one_group.groups_per_row = 1;
    Routed row = routed(logits, 1, 2, one_group);
    EXPECT_NE(row.experts[0], row.experts[1]);
  }
}

TEST(Route, ABiasChoosesAndDoesNotWeigh) {
  const Values logits = {1, 3, -2, 0};
  const Values bias = {0, -2, 3, 0};
  const Routed sigmoids = routed(logits, 1, 2, {.score = RouterScore::kSigmoid}, bias);
  EXPECT_EQ(sigmoids.experts, Experts({2, 0}));
  EXPECT_FLOAT_EQ(sigmoids.weights[0], sigmoid(-2));
  EXPECT_FLOAT_EQ(sigmoids.weights[1], sigmoid(1));

  const double sum = std::exp(1.0) + std::exp(3.0) + std::exp(-2.0) + 1;
  const Routed softmax = routed(logits, 1, 2, kScores, bias);
  EXPECT_EQ(softmax.experts, Experts({2, 0}));
  EXPECT_NEAR(softmax.weights[0], std::exp(-2.0) / sum, 1e-7);
  EXPECT_NEAR(softmax.weights[1], std::exp(1.0) / sum, 1e-7);
}

TEST(Route, WeightsAreDividedByTheirSumOrByTheLeastAndThenScaled) {
  const Values logits = {1, 3, -2, 0};
  Routing routing = {
      .score = RouterScore::kSigmoid, .weights_sum_to_one = true, .weight_scale = 2.5F};
  const float sum = sigmoid(3) + sigmoid(1);
  Routed row = routed(logits, 1, 2, routing);
  EXPECT_FLOAT_EQ(row.weights[0], sigmoid(3) / sum * 2.5F);
  EXPECT_FLOAT_EQ(row.weights[1], sigmoid(1) / sum * 2.5F);
  routing.min_weight_sum = 10;
  row = routed(logits, 1, 2, routing);
  EXPECT_FLOAT_EQ(row.weights[1], sigmoid(1) / 4);

  // Of a softmax, whether its scores are made or its logits are enough to choose.
  const Values zeros(4, 0.0F);
  const double all = std::exp(1.0) + std::exp(3.0) + std::exp(-2.0) + 1;
  for (const Values& bias : {Values(), zeros}) {
    row = routed(logits, 1, 2, {.weights_sum_to_one = true, .min_weight_sum = 2.0F}, bias);
    EXPECT_EQ(row.experts, Experts({1, 0}));
    EXPECT_NEAR(row.weights[0], std::exp(3.0) / all / 2, 1e-6);
  }
}

TEST(Route, GroupsAreChosenByTheirBestExpert) {
  // Without groups: 0, 3, 1.
  const Values logits = {5, 3, 0, 4, 1, 2};
  Routing routing = {.num_groups = 3, .groups_per_row = 2};
  Routed row = routed(logits, 1, 3, routing);
  EXPECT_EQ(row.experts, Experts({0, 3, 1}));
  routing.groups_per_row = 1;
  row = routed(logits, 1, 2, routing);
  EXPECT_EQ(row.experts, Experts({0, 1}));
  // The softmax is over all experts nevertheless.
  double all = 0;
  for (const float logit : logits) all += std::exp(static_cast<double>(logit));
  EXPECT_NEAR(row.weights[1], std::exp(3.0) / all, 1e-6);
  // The lower group among equals.
  EXPECT_EQ(routed({1, 0, 1, 0, 1, 0}, 1, 2, routing).experts, Experts({0, 1}));
}

TEST(Route, GroupsAreChosenByTheSumOfTheirTwoBestExperts) {
  const Routing routing = {.score = RouterScore::kSigmoid,
                           .num_groups = 2,
                           .groups_per_row = 1,
                           .group_rank = GroupRank::kSumOfTwoBest};
  const Values logits = {4, -4, -4, 1, 1, -9};
  EXPECT_EQ(routed(logits, 1, 2, routing).experts, Experts({3, 4}));
  Routing by_best = routing;
  by_best.group_rank = GroupRank::kBest;
  EXPECT_EQ(routed(logits, 1, 2, by_best).experts, Experts({0, 1}));
  // The bias counts, and scores below it do not come back.
  const Values bias = {-3, -3, -3, -2, -2, -2};
  EXPECT_EQ(routed(logits, 1, 3, routing, bias).experts, Experts({3, 4, 5}));
  EXPECT_EQ(routed(logits, 1, 2, routing, {2, 2, 2, 0, 0, 0}).experts, Experts({0, 1}));
}

TEST(Route, ManyRowsAreSplitOverThreads) {
  const Values logits = random_floats(700 * 24, 2.0F, 1);
  const Routing grouped = {.score = RouterScore::kSigmoid,
                           .num_groups = 4,
                           .groups_per_row = 2,
                           .group_rank = GroupRank::kSumOfTwoBest};
  for (const Routing& routing : {kSumToOne, grouped}) {
    const Routed serial = routed(logits, 700, 5, routing);
    const Routed parallel = routed(logits, 700, 5, routing, {}, 3);
    EXPECT_EQ(parallel.experts, serial.experts);
    EXPECT_EQ(parallel.weights, serial.weights);
  }
}

}  // namespace route_test
}  // namespace quire
