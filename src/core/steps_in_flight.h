// What the scheduler remembers of the steps whose results have not come: a ring of so many, the
// oldest first, in which results come too. A request that ends or is preempted leaves all of them:
// its rows are computed, and what they give is thrown away.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "core/request.h"
#include "core/step.h"

namespace quire {

class StepsInFlight {
 public:
  // A row of a scheduled request. Of a request with several (beams), the first stands for all, and
  // the others, which follow it, are nobody's.
  struct Share {
    Request* request = nullptr;  // null: ended or preempted meanwhile, or nobody's (a retained row)
    RequestId request_id = 0;
    std::int32_t num_tokens = 0;  // drafts included
    std::int32_t num_drafts = 0;
    std::int32_t num_branched = 0;  // of these, on other paths than the first
    std::int32_t num_rows = 1;      // of the request, of as many tokens each
    RowUse use = RowUse::kNothing;
  };
  struct Step {
    StepId id = 0;
    Instant start{};  // when it was planned
    std::vector<Share> shares;
  };

  // Room for so many steps of so many requests.
  StepsInFlight(std::int32_t max_steps, std::int32_t max_num_seqs)
      : steps_(static_cast<std::size_t>(max_steps)) {
    for (Step& step : steps_) step.shares.reserve(static_cast<std::size_t>(max_num_seqs));
  }

  bool empty() const { return size_ == 0; }
  bool full() const { return size_ == steps_.size(); }
  std::size_t size() const { return size_; }
  // 0: the oldest.
  const Step& operator[](std::size_t index) const {
    return steps_[(first_ + index) % steps_.size()];
  }

  // The step that is being planned, which is not in flight yet; not where the ring is full.
  Step& next() {
    assert(!full());
    return steps_[(first_ + size_) % steps_.size()];
  }
  void launch(StepId id, Instant now) {
    next().id = id;
    next().start = now;
    ++size_;
  }
  // The result of the oldest step has come: `shares` gets what it was of. Returns its start.
  Instant land(std::vector<Share>& shares) {
    shares.clear();
    shares.swap(steps_[first_].shares);
    const Instant start = steps_[first_].start;
    first_ = (first_ + 1) % steps_.size();
    --size_;
    return start;
  }

  // What is computed in vain.
  struct Forgotten {
    std::int32_t num_tokens = 0;  // of all rows, drafts included
    std::int32_t num_drafts = 0;
  };
  // The request leaves all steps.
  Forgotten forget(const Request& request) {
    Forgotten forgotten;
    for (std::size_t i = 0; i < size_; ++i) {
      for (Share& share : steps_[(first_ + i) % steps_.size()].shares) {
        if (share.request != &request) continue;
        share.request = nullptr;
        forgotten.num_tokens += share.num_rows * share.num_tokens;
        forgotten.num_drafts += share.num_drafts;
      }
    }
    return forgotten;
  }

 private:
  std::vector<Step> steps_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace quire
