// An op's time, with what the pool's other threads gave to it; recorded where the context asks for
// it.
#pragma once

#include "base/span_recorder.h"
#include "kernels/ops.h"
#include "tensor/thread_pool.h"

namespace quire {

class OpSpan {
 public:
  OpSpan(OpContext& ctx, const Stage& stage) : ctx_(ctx) {
    if (ctx.spans == nullptr) return;
    before_ = ctx.pool.region_times();
    span_ = &ctx.spans->begin(stage);
  }
  ~OpSpan() {
    if (span_ == nullptr) return;
    const ThreadPool::RegionTimes after = ctx_.pool.region_times();
    span_->others_ns =
        (after.helped_ns - before_.helped_ns) - (after.waited_ns - before_.waited_ns);
    ctx_.spans->end();
  }
  OpSpan(const OpSpan&) = delete;
  OpSpan& operator=(const OpSpan&) = delete;

  // To fill in the cost; null where nothing is recorded.
  Span* get() const { return span_; }

 private:
  OpContext& ctx_;
  Span* span_ = nullptr;
  ThreadPool::RegionTimes before_;
};

}  // namespace quire
