#include "engine/step_pacer.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>

namespace quire {
namespace {

constexpr Duration kLeastStep = std::chrono::milliseconds(100);
constexpr std::int64_t kRowsOfStep = 12;
constexpr std::int64_t kFirstPromptTokens = 64;  // of a step, before any was measured
constexpr std::int64_t kMostPromptTokens = 1 << 20;

constexpr int kCostBits = 6;  // significant ones, of a cost and of the limit

constexpr double kNoise = 0.1;           // of a step's time, relative
constexpr double kDrift = 0.01;          // of a cost, relative, a step
constexpr double kLess = 0.3;            // first guess of small costs, of a token
constexpr double kLeastDrift = 0.25;     // a cost drifts as if it were this much of its first guess
constexpr double kErrorShare = 0.05;     // of one step in the mean error
constexpr double kMostError = 0.5;       // that one step counts with
constexpr double kMargin = 2;            // errors that the limit stays away from
constexpr double kOutlier = 2.0;         // a step counts as at most so many times what was expected
constexpr std::int64_t kTrustAfter = 8;  // measurements, before any counts as an outlier
constexpr double kFetchShare = 0.8;      // of the weight of a fetch that the one before it has
constexpr std::int64_t kForgetFetches = 1000;  // steps after the last

// What each of Cost counts.
std::array<double, 5> features(const StepWork& work) {
  const auto keys = [](std::int64_t count) {
    return static_cast<double>(count) / static_cast<double>(StepCost::kKeys);
  };
  const auto rows = static_cast<double>(work.num_rows);
  return {1.0, rows + static_cast<double>(work.prompt_tokens), rows, keys(work.row_keys),
          keys(work.prompt_keys)};
}

// Rounded up to six significant bits, so that small changes do not count.
std::int64_t coarse(double value) {
  constexpr double kMost = 1e11;  // 100 s
  const auto whole = static_cast<std::uint64_t>(std::clamp(value, 0.0, kMost));
  const int surplus = std::max(static_cast<int>(std::bit_width(whole)) - kCostBits, 0);
  const std::uint64_t mask = (std::uint64_t{1} << surplus) - 1;
  return static_cast<std::int64_t>((whole + mask) & ~mask);
}

}  // namespace

void StepPacer::measured(const StepWork& work, Duration time) {
  if (work.num_rows + work.prompt_tokens == 0) return;  // it only let requests go
  const Vector x = features(work);
  const double taken = std::max(static_cast<double>(time.count()), 1.0);
  if (num_measured_ == 0) start(x, taken);
  correct(x, taken, work.prompt_tokens > 0);
  ++num_measured_;
  most_prompt_tokens_ = std::max(most_prompt_tokens_, work.prompt_tokens);
  last_rows_ = {.num_rows = work.num_rows, .row_keys = work.row_keys};
  if (++num_steps_since_fetch_ >= kForgetFetches) fetch_time_ = fetched_blocks_ = 0;
}

// One that has brought nothing tells of no block.
void StepPacer::fetched(std::span<const TierReport::Fetched> fetches) {
  for (const TierReport::Fetched& fetch : fetches) {
    if (fetch.num_blocks == 0) continue;
    fetch_time_ = kFetchShare * fetch_time_ + static_cast<double>(fetch.time.count());
    fetched_blocks_ = kFetchShare * fetched_blocks_ + fetch.num_blocks;
    num_steps_since_fetch_ = 0;
  }
}

Duration StepPacer::block_fetch() const {
  if (fetched_blocks_ == 0) return {};
  return Duration(std::max<std::int64_t>(coarse(fetch_time_ / fetched_blocks_), 1));
}

double StepPacer::expected(const StepWork& work) const {
  const Vector x = features(work);
  double time = 0;
  for (std::size_t i = 0; i < kSize; ++i) time += costs_[i] * x[i];
  return time;
}

// Nothing is known but how long one step took: the step itself is thought to cost less of it than
// its tokens, so that too little is computed at first rather than too much. What a row takes
// besides (its logits) and kKeys keys are thought to cost no more than a token: where all rows see
// about as many keys, nothing else tells these costs apart.
void StepPacer::start(const Vector& work, double time) {
  const double token = time / work[kToken];
  const Vector deviations = {time / 4, token, kLess * token, token, kLess * token};
  for (std::size_t i = 0; i < kSize; ++i) {
    prior_[i] = deviations[i] * deviations[i];
    covariance_[i][i] = prior_[i];
  }
}

// One step that took very long may have lost its CPUs; two in a row are the machine as it is.
double StepPacer::without_outliers(double time, double expected, bool has_prompt) {
  if (num_measured_ < kTrustAfter || expected <= 0) return time;
  const double error = std::clamp(time / expected - 1, -kMostError, kMostError);
  if (has_prompt) error_ += kErrorShare * (error * error - error_);
  outlier_ = !outlier_ && time > kOutlier * expected;
  return outlier_ ? kOutlier * expected : time;
}

void StepPacer::correct(const Vector& work, double time, bool has_prompt) {
  for (std::size_t i = 0; i < kSize; ++i) {
    const double drift = kDrift * std::max(costs_[i], kLeastDrift * std::sqrt(prior_[i]));
    if (covariance_[i][i] < prior_[i]) covariance_[i][i] += drift * drift;
  }
  double expected = 0;
  double variance = 0;
  Vector spread{};  // covariance times work
  for (std::size_t i = 0; i < kSize; ++i) {
    for (std::size_t j = 0; j < kSize; ++j) spread[i] += covariance_[i][j] * work[j];
    expected += costs_[i] * work[i];
    variance += work[i] * spread[i];
  }
  time = without_outliers(time, expected, has_prompt);
  const double noise = kNoise * time;
  const double total = variance + noise * noise;
  for (std::size_t i = 0; i < kSize; ++i) {
    costs_[i] = std::max(costs_[i] + spread[i] / total * (time - expected), 0.0);
    for (std::size_t j = 0; j < kSize; ++j) covariance_[i][j] -= spread[i] * spread[j] / total;
  }
}

StepCost StepPacer::cost() const {
  constexpr std::int64_t kMostKeys = 1 << 26;
  return {.step = coarse(costs_[kStep]),
          .row = coarse(costs_[kToken] + costs_[kRow]),
          .row_keys = std::min(coarse(costs_[kRowKeys]), kMostKeys),
          .prompt_token = coarse(costs_[kToken]),
          .prompt_keys = std::min(coarse(costs_[kPromptKeys]), kMostKeys)};
}

Duration StepPacer::max_step(const StepCost& cost) const {
  if (max_step_ == Duration::zero()) return {};
  const double margin = 1 + kMargin * std::sqrt(error_);
  const double limit = static_cast<double>(limit_of(cost).count());
  const std::int64_t above = coarse(limit / margin);
  return Duration(std::max<std::int64_t>(above - (above >> (kCostBits - 1)), 1));
}

Duration StepPacer::limit_of(const StepCost& cost) const {
  if (max_step_) return *max_step_;
  const Duration row = cost.time_of({.num_rows = 1, .row_keys = 1});
  const Duration rows = 2 * cost.time_of(last_rows_);
  const Duration most = std::max(kRowsOfStep * row, rows);
  return std::max(kLeastStep, most);
}

StepPace StepPacer::pace() const {
  const StepCost cost = this->cost();
  const std::int64_t prompt_tokens =
      std::clamp(2 * most_prompt_tokens_, kFirstPromptTokens, kMostPromptTokens);
  return {.max_step = max_step(cost),
          .max_prompt_tokens = static_cast<std::int32_t>(prompt_tokens),
          .cost = cost,
          .block_fetch = block_fetch()};
}

}  // namespace quire
