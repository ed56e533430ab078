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
  Span& span = begin_at(stage, 0);
  span.start_ns = steady_now_ns();  // last, so that the span is not charged for its own beginning
  return span;
}

Span& SpanRecorder::begin_at(const Stage& stage, std::int64_t start_ns) {
  assert(depth_ < kMaxDepth);
  Span& span = open_[depth_++];
  span = {.stage = &stage, .start_ns = start_ns, .first = num_ended_};
  return span;
}

void SpanRecorder::end() { end_at(steady_now_ns()); }

void SpanRecorder::end_at(std::int64_t end_ns) {
  assert(depth_ > 0);
  Span& span = open_[--depth_];
  span.end_ns = end_ns;
  ring_[num_ended_ % ring_.size()] = span;
  ++num_ended_;
}

}  // namespace quire
