#include "sim/step_cost_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace quire {
namespace {

constexpr std::size_t kFeatures = 5;
constexpr std::size_t kFewestSteps = 20;
using Features = std::array<double, kFeatures>;

Features features_of(const StepWork& work) {
  constexpr auto kKeys = static_cast<double>(StepCost::kKeys);
  return {1, static_cast<double>(work.num_rows), static_cast<double>(work.row_keys) / kKeys,
          static_cast<double>(work.prompt_tokens), static_cast<double>(work.prompt_keys) / kKeys};
}

double dot(const Features& a, const Features& b) {
  double sum = 0;
  for (std::size_t i = 0; i < kFeatures; ++i) sum += a[i] * b[i];
  return sum;
}

// The least squares with the features that are `used`, by Cholesky's factors; nullopt where some
// depend on others. The others' costs are 0.
std::optional<Features> solve(const std::array<Features, kFeatures>& matrix, const Features& right,
                              const std::array<bool, kFeatures>& used) {
  std::array<Features, kFeatures> lower{};
  Features middle{};
  for (std::size_t i = 0; i < kFeatures; ++i) {
    if (!used[i]) continue;
    double sum = right[i];
    for (std::size_t j = 0; j <= i; ++j) {
      if (!used[j]) continue;
      double value = matrix[i][j];
      for (std::size_t k = 0; k < j; ++k) value -= lower[i][k] * lower[j][k];
      if (j < i) {
        lower[i][j] = value / lower[j][j];
        sum -= lower[i][j] * middle[j];
      } else {
        if (!(value > 1e-12 * matrix[i][i])) return std::nullopt;
        lower[i][i] = std::sqrt(value);
        middle[i] = sum / lower[i][i];
      }
    }
  }
  Features costs{};
  for (std::size_t i = kFeatures; i-- > 0;) {
    if (!used[i]) continue;
    double sum = middle[i];
    for (std::size_t j = i + 1; j < kFeatures; ++j) sum -= lower[j][i] * costs[j];
    costs[i] = sum / lower[i][i];
  }
  return costs;
}

// A step to fit, and how much its error counts.
struct WeightedStep {
  Features features{};
  double time = 0;
  double weight = 1;

  double relative_error(const Features& costs) const {
    return std::abs(dot(costs, features) - time) / time;
  }
};

// The least squares of relative errors. None below zero: the lowest of those that would be is taken
// out, until none is.
Result<Features> solve_nonnegative(std::span<const WeightedStep> steps) {
  std::array<Features, kFeatures> matrix{};
  Features right{};
  for (const auto& [features, time, importance] : steps) {
    const double weight = importance / (time * time);
    for (std::size_t i = 0; i < kFeatures; ++i) {
      for (std::size_t j = 0; j < kFeatures; ++j)
        matrix[i][j] += weight * features[i] * features[j];
      right[i] += weight * features[i] * time;
    }
  }
  std::array<bool, kFeatures> used;
  for (std::size_t i = 0; i < kFeatures; ++i) used[i] = matrix[i][i] > 0;
  while (true) {
    const auto costs = solve(matrix, right, used);
    if (!costs) {
      return Status::invalid_argument(
          "the measured steps are too much alike to tell what a row, a prompt's token and a key "
          "cost",
          "measure steps of several sizes, with prompts and without");
    }
    std::size_t lowest = 0;
    for (std::size_t i = 1; i < kFeatures; ++i) {
      if ((*costs)[i] < (*costs)[lowest]) lowest = i;
    }
    if ((*costs)[lowest] >= 0) return *costs;
    used[lowest] = false;
  }
}

}  // namespace

Result<StepCostFit> fit_step_cost(std::span<const MeasuredStep> steps) {
  std::vector<WeightedStep> used;
  for (const MeasuredStep& step : steps) {
    if (step.time <= Duration::zero()) continue;
    used.push_back(
        {.features = features_of(step.work), .time = static_cast<double>(step.time.count())});
  }
  if (used.size() < kFewestSteps) {
    return Status::invalid_argument(
        fmt::format("{} steps were measured; expected at least {}", used.size(), kFewestSteps));
  }
  // Squares that are divided by the last round's errors are these errors without their signs.
  constexpr int kRounds = 40;
  constexpr double kSmallestError = 1e-4;
  Features costs{};
  for (int round = 0; round < kRounds; ++round) {
    QUIRE_ASSIGN_OR_RETURN(costs, solve_nonnegative(used));
    for (WeightedStep& step : used) {
      step.weight = 1 / std::max(step.relative_error(costs), kSmallestError);
    }
  }
  double error = 0;
  for (const WeightedStep& step : used) error += step.relative_error(costs);
  const auto whole = [](double cost) { return static_cast<std::int64_t>(std::llround(cost)); };
  return StepCostFit{.cost = {.step = whole(costs[0]),
                              .row = whole(costs[1]),
                              .row_keys = whole(costs[2]),
                              .prompt_token = whole(costs[3]),
                              .prompt_keys = whole(costs[4])},
                     .mean_error = error / static_cast<double>(used.size())};
}

StepCost in_proportion(const StepCost& cost, std::span<const MeasuredStep> steps) {
  double taken = 0;
  double expected = 0;
  for (const MeasuredStep& step : steps) {
    taken += to_seconds(step.time);
    expected += to_seconds(cost.time_of(step.work));
  }
  if (taken <= 0 || expected <= 0) return cost;
  const auto scaled = [ratio = taken / expected](std::int64_t each) {
    return static_cast<std::int64_t>(std::llround(static_cast<double>(each) * ratio));
  };
  return {.step = scaled(cost.step),
          .row = scaled(cost.row),
          .row_keys = scaled(cost.row_keys),
          .prompt_token = scaled(cost.prompt_token),
          .prompt_keys = scaled(cost.prompt_keys)};
}

}  // namespace quire
