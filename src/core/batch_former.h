// When requests may join those that run: at every step (continuous batching), or less often, where
// that is to disturb them less (AdmissionPace); or only as a batch whose members stay the same
// until all are done, as classical batches of tensors do (static), which may wait a while to fill
// up (dynamic).
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace quire {

// When the members of a batch may change.
enum class Batching : std::uint8_t {
  kContinuous,  // at every step
  kStatic,      // when all members are done; finished rows go on being computed
  kDynamic,     // as static, but a batch that is not full waits a while for more
};

// With continuous batching, those that have not run yet start beside others only in a step before
// which at least so many wait for each that runs (the product rounded down), or so many steps have
// passed since one has started. As text-generation-inference's --waiting-served-ratio and
// --max-waiting-tokens, where a step is a token.
struct AdmissionPace {
  double waiting_served_ratio = 0;  // 0: they start in any step
  std::int32_t max_waiting_tokens = 20;

  bool limited() const { return waiting_served_ratio > 0; }
  bool operator==(const AdmissionPace&) const = default;
};
inline constexpr double kMaxWaitingServedRatio = 1000;

class BatchFormer {
 public:
  // `max_delay`: of dynamic batching, from the oldest waiting arrival.
  BatchFormer(Batching batching, std::int32_t max_num_seqs, Duration max_delay,
              const AdmissionPace& pace)
      : batching_(batching), max_num_seqs_(max_num_seqs), max_delay_(max_delay), pace_(pace) {}

  // A step is planned, after `num_steps` others, while so many wait and run.
  void begin_step(std::int64_t num_steps, std::int64_t num_waiting, std::int64_t num_running);
  // Whether, in that step, the pace lets those start that have not run yet.
  bool open() const { return open_; }

  // No request runs, and `num_waiting` > 0 wait since `oldest_arrival`: forms the next batch if it
  // is time to.
  void form(std::int64_t num_waiting, Instant oldest_arrival, Instant now);
  // When form() would do so, if nothing else happens.
  Instant forms_at(std::int64_t num_waiting, Instant oldest_arrival) const;

  // Whether the batch has a place; then, that a request has joined, for the first time or not; and
  // that a member was preempted.
  bool admits() const { return batching_ == Batching::kContinuous || num_vacancies_ > 0; }
  void joined(bool first_time) {
    num_vacancies_ -= batching_ == Batching::kContinuous ? 0 : 1;
    if (first_time) last_start_ = num_steps_;
  }
  void returned() { num_vacancies_ += batching_ == Batching::kContinuous ? 0 : 1; }
  // Whether the rows of finished members stay in the batch.
  bool retains() const { return batching_ != Batching::kContinuous; }

  // All of its state between two steps.
  std::int64_t num_vacancies() const { return num_vacancies_; }
  std::int64_t last_start() const { return last_start_; }  // steps before that in which one started
  void restore(std::int64_t num_vacancies, std::int64_t last_start) {
    num_vacancies_ = num_vacancies;
    last_start_ = last_start;
  }

 private:
  Batching batching_;
  std::int32_t max_num_seqs_;
  Duration max_delay_;
  AdmissionPace pace_;
  std::int64_t num_vacancies_ = 0;  // members of the batch that have not joined yet
  std::int64_t num_steps_ = 0;      // before the one that is planned
  std::int64_t last_start_ = 0;
  bool open_ = true;
};

}  // namespace quire
