#include "base/span_recorder.h"

#include <algorithm>
#include <cassert>

#include "base/clock.h"

namespace quire {

std::string_view stage_kind_name(StageKind kind) {
  switch (kind) {
    case StageKind::kWhole:
      return "whole";
    case StageKind::kBookkeeping:
      return "bookkeeping";
    case StageKind::kKernel:
      return "kernel";
    case StageKind::kSampling:
      return "sampling";
    case StageKind::kWait:
      return "wait";
  }
  return "?";
}

SpanRecorder::SpanRecorder(std::size_t capacity)
    : ring_(std::max<std::size_t>(capacity, 1)), open_() {}

Span& SpanRecorder::begin(const Stage& stage) {
  assert(depth_ < kMaxDepth);
  Span& span = open_[depth_++];
  span = {.stage = &stage, .first = num_ended_};
  span.start_ns = steady_now_ns();  // last, so that the span is not charged for its own beginning
  return span;
}

void SpanRecorder::end() {
  assert(depth_ > 0);
  Span& span = open_[--depth_];
  span.end_ns = steady_now_ns();
  ring_[num_ended_ % ring_.size()] = span;
  ++num_ended_;
}

}  // namespace quire
