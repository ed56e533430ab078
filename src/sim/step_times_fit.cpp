#include "sim/step_times_fit.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>

#include <fmt/format.h>

namespace quire {
namespace {

// What costs: a step of one token, each further token between two points of the curve, a row,
// kKeys keys of rows and of prompts.
constexpr std::size_t kMostSegments = 20;
constexpr std::size_t kRow = kMostSegments + 1;
constexpr std::size_t kRowKeys = kRow + 1;
constexpr std::size_t kPromptKeys = kRowKeys + 1;
constexpr std::size_t kFeatures = kPromptKeys + 1;
constexpr std::size_t kFewestSteps = 20;
constexpr std::size_t kFewestOfKind = 4;
// A bend of the curve counts as little as this much of one step with as large an error.
constexpr double kBend = 0.1;
using Features = std::array<double, kFeatures>;
using Knots = std::vector<std::int64_t>;

// Where the curve may bend: powers of two, and the most tokens of a step.
Knots knots_up_to(std::int64_t most) {
  Knots knots = {1};
  for (std::int64_t next = 2; knots.size() < kMostSegments && next * 3 / 2 <= most; next *= 2) {
    knots.push_back(next);
  }
  knots.push_back(most);
  return knots;
}

Features features_of(const StepWork& work, const Knots& knots) {
  constexpr auto kKeys = static_cast<double>(StepCost::kKeys);
  Features features{};
  features[0] = 1;
  for (std::size_t i = 1; i < knots.size(); ++i) {
    const std::int64_t within = std::clamp(tokens_of(work), knots[i - 1], knots[i]);
    features[i] = static_cast<double>(within - knots[i - 1]);
  }
  features[kRow] = static_cast<double>(work.num_rows);
  features[kRowKeys] = static_cast<double>(work.row_keys) / kKeys;
  features[kPromptKeys] = static_cast<double>(work.prompt_keys) / kKeys;
  return features;
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

// Something to fit: a sum of costs that should be `time`, an error relative to `scale`, and how
// much that counts.
struct Equation {
  Features features{};
  double time = 0;
  double scale = 1;
  double weight = 1;

  double relative_error(const Features& costs) const {
    return std::abs(dot(costs, features) - time) / scale;
  }
};

// The least squares of relative errors. None below zero: of those that would be, the one that
// lowers the sums most is taken out, until none is.
Result<Features> solve_nonnegative(std::span<const Equation> equations) {
  std::array<Features, kFeatures> matrix{};
  Features right{};
  for (const auto& [features, time, scale, importance] : equations) {
    const double weight = importance / (scale * scale);
    for (std::size_t i = 0; i < kFeatures; ++i) {
      if (features[i] == 0) continue;
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
    std::optional<std::size_t> lowest;
    double least = 0;
    for (std::size_t i = 0; i < kFeatures; ++i) {
      const double part = (*costs)[i] * std::sqrt(matrix[i][i]);
      if (part < least) lowest = i;
      least = std::min(least, part);
    }
    if (!lowest) return *costs;
    used[*lowest] = false;
  }
}

std::vector<Equation> equations_of(std::span<const MeasuredStep> steps, const Knots& knots) {
  std::vector<Equation> equations;
  for (const MeasuredStep& step : steps) {
    const auto time = static_cast<double>(step.time.count());
    equations.push_back(
        {.features = features_of(step.work, knots), .time = time, .scale = time, .weight = 1});
  }
  return equations;
}

// Says that the curve does not bend at a point, and that rows cost nothing but their tokens: what
// holds where no step says otherwise.
std::vector<Equation> straight(std::span<const MeasuredStep> steps, const Knots& knots) {
  const auto nearest_time = [&](std::int64_t tokens) {
    const auto distance = [&](const MeasuredStep& step) {
      return std::abs(std::log2(static_cast<double>(tokens_of(step.work))) -
                      std::log2(static_cast<double>(tokens)));
    };
    return static_cast<double>(std::ranges::min_element(steps, {}, distance)->time.count());
  };
  std::vector<Equation> equations;
  for (std::size_t i = 2; i < knots.size(); ++i) {
    Equation bend = {.time = 0, .scale = nearest_time(knots[i]), .weight = kBend};
    const auto length = static_cast<double>(knots[i] - knots[i - 1]);
    bend.features[i] = length;
    bend.features[i - 1] = -length;
    equations.push_back(bend);
  }
  for (const std::size_t cost : {kRow, kRowKeys}) {
    Equation nothing = {.time = 0, .scale = nearest_time(1), .weight = kBend * kBend};
    nothing.features[cost] = 1;
    equations.push_back(nothing);
  }
  return equations;
}

StepTimes times_of(const Features& costs, const Knots& knots) {
  StepTimes times;
  double value = costs[0];
  times.tokens.push_back({.tokens = 1, .value = value});
  for (std::size_t i = 1; i < knots.size(); ++i) {
    value += costs[i] * static_cast<double>(knots[i] - knots[i - 1]);
    times.tokens.push_back({.tokens = knots[i], .value = value});
  }
  times.row = costs[kRow];
  times.row_keys = costs[kRowKeys];
  times.prompt_keys = costs[kPromptKeys];
  return times;
}

double middle_of(std::vector<double>& values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::int64_t kind_of(std::int64_t tokens) {
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(tokens)));
}

}  // namespace

Result<StepTimesFit> fit_step_times(std::span<const MeasuredStep> steps) {
  std::vector<MeasuredStep> used;
  for (const MeasuredStep& step : steps) {
    if (step.time > Duration::zero() && tokens_of(step.work) > 0) used.push_back(step);
  }
  if (used.size() < kFewestSteps) {
    return Status::invalid_argument(
        fmt::format("{} steps were measured; expected at least {}", used.size(), kFewestSteps));
  }
  const auto tokens = [](const MeasuredStep& step) { return tokens_of(step.work); };
  const auto [least, most] = std::ranges::minmax_element(used, {}, tokens);
  if (tokens(*least) == tokens(*most)) {
    return Status::invalid_argument(
        fmt::format("the measured steps are too much alike: all have {} tokens", tokens(*most)),
        "measure steps of several sizes, with prompts and without");
  }
  const Knots knots = knots_up_to(tokens(*most));
  std::vector<Equation> equations = equations_of(used, knots);
  std::ranges::copy(straight(used, knots), std::back_inserter(equations));
  // Squares that are divided by the last round's errors are these errors without their signs.
  constexpr int kRounds = 40;
  constexpr double kSmallestError = 1e-4;
  Features costs{};
  for (int round = 0; round < kRounds; ++round) {
    QUIRE_ASSIGN_OR_RETURN(costs, solve_nonnegative(equations));
    for (Equation& step : std::span(equations).first(used.size())) {
      step.weight = 1 / std::max(step.relative_error(costs), kSmallestError);
    }
  }
  StepTimesFit fit = {.times = times_of(costs, knots)};
  fit.mean_error = mean_error(fit.times, used);
  return fit;
}

double mean_error(const StepTimes& times, std::span<const MeasuredStep> steps) {
  double sum = 0;
  double count = 0;
  for (const MeasuredStep& step : steps) {
    if (step.time <= Duration::zero()) continue;
    sum += std::abs(to_seconds(times.time_of(step.work)) / to_seconds(step.time) - 1);
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

std::vector<StepKind> step_kinds(const StepTimes& times, std::span<const MeasuredStep> steps) {
  struct Steps {
    std::vector<double> tokens;
    std::vector<double> factors;
  };
  std::map<std::int64_t, Steps> found;
  for (const MeasuredStep& step : steps) {
    const std::int64_t tokens = tokens_of(step.work);
    const double expected = to_seconds(times.time_of(step.work));
    if (tokens == 0 || expected <= 0) continue;
    Steps& kind = found[kind_of(tokens)];
    kind.tokens.push_back(static_cast<double>(tokens));
    kind.factors.push_back(to_seconds(step.time) / expected);
  }
  std::vector<StepKind> kinds;
  for (auto& [first, kind] : found) {
    if (kind.tokens.size() < kFewestOfKind) continue;
    kinds.push_back({.first_tokens = first,
                     .tokens = static_cast<std::int64_t>(middle_of(kind.tokens)),
                     .num_steps = std::ssize(kind.tokens),
                     .factor = middle_of(kind.factors)});
  }
  return kinds;
}

const StepKind* find_kind(std::span<const StepKind> kinds, std::int64_t tokens) {
  const auto found = std::ranges::find(kinds, kind_of(tokens), &StepKind::first_tokens);
  return found == kinds.end() ? nullptr : &*found;
}

std::string tokens_text(const StepKind& kind) {
  if (kind.first_tokens == 1) return "1";
  return fmt::format("{} to {}", kind.first_tokens, 2 * kind.first_tokens - 1);
}

StepTimes in_proportion(const StepTimes& times, std::span<const MeasuredStep> steps) {
  StepTimes scaled = times;
  for (const StepKind& kind : step_kinds(times, steps)) {
    scaled.factors.push_back({.tokens = kind.tokens, .value = kind.factor});
  }
  if (scaled.factors.empty()) scaled.factors.push_back({.tokens = 1, .value = 1});
  double taken = 0;
  double expected = 0;
  for (const MeasuredStep& step : steps) {
    taken += to_seconds(step.time);
    expected += to_seconds(scaled.time_of(step.work));
  }
  if (taken <= 0 || expected <= 0) return times;
  for (StepTimes::Point& factor : scaled.factors) factor.value *= taken / expected;
  return scaled;
}

}  // namespace quire
