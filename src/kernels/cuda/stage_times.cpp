#include "kernels/cuda/stage_times.h"

#include <cmath>
#include <cuda_runtime_api.h>

#include "base/clock.h"

namespace quire::cuda {
namespace {

constexpr Stage kStepStage = {StageKind::kWhole, "step on the GPU"};

// Few enough that the others show how long a step takes.
constexpr std::uint64_t kStepsForTimedOne = 8;

}  // namespace

StageTimes::~StageTimes() {
  for (CUevent_st* const event : events_) (void)cudaEventDestroy(event);
}

void StageTimes::begin_step(std::uint64_t id) {
  if (spans_ == nullptr) return;
  if (timing_) give_spans();
  marks_.clear();
  id_ = id;
  timing_ = ++num_steps_ % kStepsForTimedOne == 0;
}

void StageTimes::mark(const Stage* stage, const SpanCost& cost, bool in_graph) {
  if (!timing_) return;
  if (marks_.size() == events_.size()) {
    CUevent_st* event = nullptr;
    if (cudaEventCreate(&event) != cudaSuccess) return;
    events_.push_back(event);
  }
  if (marks_.empty()) start_ns_ = steady_now_ns();
  // Else it would say in which order recorded work is to run, and not when it did.
  const unsigned flags = in_graph ? cudaEventRecordExternal : cudaEventRecordDefault;
  (void)cudaEventRecordWithFlags(events_[marks_.size()], stream_, flags);
  marks_.push_back({stage, cost});
}

void StageTimes::give_spans() {
  if (marks_.size() < 2) return;
  times_.clear();
  for (std::size_t i = 0; i < marks_.size(); ++i) {
    float milliseconds = 0.0F;
    if (cudaEventElapsedTime(&milliseconds, events_[0], events_[i]) != cudaSuccess) {
      (void)cudaGetLastError();
      return;  // a step that failed
    }
    times_.push_back(start_ns_ + std::llround(1e6 * static_cast<double>(milliseconds)));
  }
  spans_->begin_at(kStepStage, times_.front()).id = id_;
  for (std::size_t i = 0; i + 1 < marks_.size(); ++i) {
    if (marks_[i].stage == nullptr) continue;
    spans_->begin_at(*marks_[i].stage, times_[i]).cost = marks_[i].cost;
    spans_->end_at(times_[i + 1]);
  }
  spans_->end_at(times_.back());
}

}  // namespace quire::cuda
