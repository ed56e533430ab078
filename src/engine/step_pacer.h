// Learns what steps and fetches of KV blocks take, and says how much of the prompts the next steps
// may compute, so that those who get their output token by token do not wait for long:
// `--max-step-ms`.
//
// A step's time is linear in its work (core/step_pace.h): so much for every step, for every token,
// more for a token that is a row, and for the keys that they see. The five costs are the state of a
// Kalman filter (Kalman 1960) that each step's time corrects: what the steps of late did not
// exercise keeps its estimate and becomes less certain, so that the next step which does moves it
// more.
//
// Steps vary: the scheduler is told of a limit that is smaller by twice the usual error of steps
// with prompts, so that nearly all keep the one that was asked for.
//
// What fetching a block takes is the mean over the fetches of late. It is forgotten after many
// steps without one: where it is thought to cost more than computing, nothing is fetched, and
// whatever made it slow may be over.
//
// Without a limit of the user's, a step may take
//   - twelve times what one row alone takes: what a step costs whatever it computes (reading the
//     weights, most of all) is then at most a twelfth of a step that prompts fill, and of a burst
//     the median first token comes before two thirds of the time that its prompts alone take; but
//   - not less than 100 ms, ten tokens a second, which is faster than people read; and
//   - not less than twice what its rows take: prompts always get half of the machine.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>

#include "base/clock.h"
#include "core/step.h"
#include "core/step_pace.h"

namespace quire {

class StepPacer {
 public:
  // nullopt: the rule above; zero: no limit.
  explicit StepPacer(std::optional<Duration> max_step) : max_step_(max_step) {}

  // A step of that work took so long.
  void measured(const StepWork& work, Duration time);

  // These fetches have ended.
  void fetched(std::span<const TierReport::Fetched> fetches);

  // What a step of that work is thought to take, in nanoseconds; 0 before any was measured.
  double expected(const StepWork& work) const;

  // Of the next step. Costs are rounded up to six significant bits, so that the pace changes
  // seldom once they are known.
  StepPace pace() const;

 private:
  // What costs: a step, a token, a row besides what a token costs, kKeys keys.
  enum Cost : std::size_t { kStep, kToken, kRow, kRowKeys, kPromptKeys, kSize };
  using Vector = std::array<double, kSize>;

  void start(const Vector& work, double time);
  double without_outliers(double time, double expected, bool has_prompt);
  void correct(const Vector& work, double time, bool has_prompt);
  StepCost cost() const;
  Duration max_step(const StepCost& cost) const;
  Duration limit_of(const StepCost& cost) const;
  Duration block_fetch() const;

  std::optional<Duration> max_step_;
  Vector costs_{};  // ns
  Vector prior_{};  // variances at the start: no cost is less certain than this
  std::array<Vector, kSize> covariance_{};
  double error_ = 0.01;   // of what steps are expected to take: the mean square, relative
  bool outlier_ = false;  // the step before was one
  std::int64_t num_measured_ = 0;
  std::int64_t most_prompt_tokens_ = 0;  // of a measured step
  StepWork last_rows_;                   // of the step before
  // Of the fetches of late, each with its weight; and the steps since the last.
  double fetch_time_ = 0;
  double fetched_blocks_ = 0;
  std::int64_t num_steps_since_fetch_ = 0;
};

}  // namespace quire
