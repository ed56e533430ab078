#include "core/batch_former.h"

#include <algorithm>

namespace quire {

void BatchFormer::begin_step(std::int64_t num_steps, std::int64_t num_waiting,
                             std::int64_t num_running) {
  num_steps_ = num_steps;
  const auto least =
      static_cast<std::int64_t>(pace_.waiting_served_ratio * static_cast<double>(num_running));
  open_ = num_waiting >= least || num_steps - last_start_ >= pace_.max_waiting_tokens;
}

void BatchFormer::form(std::int64_t num_waiting, Instant oldest_arrival, Instant now) {
  if (batching_ == Batching::kContinuous) return;
  const bool ready = now >= forms_at(num_waiting, oldest_arrival);
  num_vacancies_ = ready ? std::min<std::int64_t>(num_waiting, max_num_seqs_) : 0;
}

Instant BatchFormer::forms_at(std::int64_t num_waiting, Instant oldest_arrival) const {
  if (batching_ != Batching::kDynamic || num_waiting >= max_num_seqs_) return Instant::zero();
  return oldest_arrival + max_delay_;
}

}  // namespace quire
