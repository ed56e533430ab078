// When requests may join those that run: at every step (continuous batching), or only as a batch
// whose members stay the same until all are done, as classical batches of tensors do (static),
// which may wait a while to fill up (dynamic).
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

class BatchFormer {
 public:
  // `max_delay`: of dynamic batching, from the oldest waiting arrival.
  BatchFormer(Batching batching, std::int32_t max_num_seqs, Duration max_delay)
      : batching_(batching), max_num_seqs_(max_num_seqs), max_delay_(max_delay) {}

  // No request runs, and `num_waiting` > 0 wait since `oldest_arrival`: forms the next batch if it
  // is time to.
  void form(std::int64_t num_waiting, Instant oldest_arrival, Instant now);
  // When form() would do so, if nothing else happens.
  Instant forms_at(std::int64_t num_waiting, Instant oldest_arrival) const;

  // Whether a request may join now; then, that it has; and that a member was preempted.
  bool admits() const { return batching_ == Batching::kContinuous || num_vacancies_ > 0; }
  void joined() { num_vacancies_ -= batching_ == Batching::kContinuous ? 0 : 1; }
  void returned() { num_vacancies_ += batching_ == Batching::kContinuous ? 0 : 1; }
  // Whether the rows of finished members stay in the batch.
  bool retains() const { return batching_ != Batching::kContinuous; }

  // All of its state.
  std::int64_t num_vacancies() const { return num_vacancies_; }
  void restore(std::int64_t num_vacancies) { num_vacancies_ = num_vacancies; }

 private:
  Batching batching_;
  std::int32_t max_num_seqs_;
  Duration max_delay_;
  std::int64_t num_vacancies_ = 0;  // members of the batch that have not joined yet
};

}  // namespace quire
