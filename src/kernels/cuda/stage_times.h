// How long ops run on a GPU: events between them, in one of some steps, because a kernel between
// events starts when the one before it is done, and not early as elsewhere (pdl_launch.cuh).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/span_recorder.h"

struct CUstream_st;  // cudaStream_t is a pointer to it
struct CUevent_st;   // cudaEvent_t

namespace quire::cuda {

class StageTimes {
 public:
  explicit StageTimes(CUstream_st* stream) : stream_(stream) {}
  ~StageTimes();
  StageTimes(const StageTimes&) = delete;
  StageTimes& operator=(const StageTimes&) = delete;

  // Borrows `spans`.
  void record_in(SpanRecorder& spans) { spans_ = &spans; }
  // The stream is idle: gives the times of the step before. `id`: of the one that begins.
  void begin_step(std::uint64_t id);
  // Whether ops of this step are timed.
  bool timing() const { return timing_; }

  // What comes next in the stream is of `stage`; null: of none. `in_graph`: it is recorded.
  void mark(const Stage* stage, const SpanCost& cost, bool in_graph);
  // Marks that what was recorded has set are forgotten from `count` on: it is not launched.
  std::size_t num_marks() const { return marks_.size(); }
  void forget_from(std::size_t count) { marks_.resize(count); }

 private:
  struct Mark {
    const Stage* stage = nullptr;
    SpanCost cost;
  };

  void give_spans();

  CUstream_st* stream_;
  SpanRecorder* spans_ = nullptr;
  bool timing_ = false;
  std::uint64_t num_steps_ = 0;
  std::uint64_t id_ = 0;
  std::int64_t start_ns_ = 0;  // when the host set the first mark
  std::vector<Mark> marks_;
  std::vector<CUevent_st*> events_;  // of marks, and of other steps
  std::vector<std::int64_t> times_;  // of the step that is given
};

}  // namespace quire::cuda
