// Where time goes inside one thread: nested spans, each with the stage that it belongs to, in a
// ring of fixed size. A span costs two looks at the clock and allocates nothing. Passed by pointer,
// never global; where the pointer is null, nothing is measured, and only that test costs time.
//
//   SpanRecorder recorder(1 << 16);
//   {
//     const ScopedSpan span(&recorder, kSchedule);
//     ...
//   }
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace quire {

// What a stage's time is spent for.
enum class StageKind : std::uint8_t {
  kWhole,        // contains other stages; time of its own belongs to none of them
  kBookkeeping,  // around the computation: commands, scheduling, preparing, handing over
  kKernel,       // an op of the model
  kSampling,     // logits to tokens
  kWait,         // for something to do
};
std::string_view stage_kind_name(StageKind kind);  // "bookkeeping" and so on

// Defined once where it is measured, as a constant with static storage.
struct Stage {
  StageKind kind = StageKind::kWhole;
  std::string_view name;
};

// What is known of a span besides its time; zero where it is not.
struct SpanCost {
  std::uint64_t bytes = 0;       // that had to be read from memory, each counted once
  std::uint64_t operations = 0;  // a multiplication and an addition are two
};

// Spans are numbered from zero in the order in which they end, so that those inside a span come
// before it: they are [first, its own number).
struct Span {
  const Stage* stage = nullptr;
  std::int64_t start_ns = 0;  // of the steady clock
  std::int64_t end_ns = 0;
  std::uint64_t first = 0;
  std::uint64_t id = 0;  // of the step, where it is of one; 0 elsewhere
  SpanCost cost{};
  // Time that other threads worked for it, less the time that this one waited for them.
  std::int64_t others_ns = 0;

  std::int64_t duration_ns() const { return end_ns - start_ns; }
};

// One thread records; another may read once that thread has ended or is known to be idle.
class SpanRecorder {
 public:
  // Keeps the last `capacity` (>= 1) spans.
  explicit SpanRecorder(std::size_t capacity);

  // Begins a span inside the one that is open, at most kMaxDepth deep. Its fields may be filled in
  // until end().
  Span& begin(const Stage& stage);
  void end();
  // The same at times that became known afterwards.
  Span& begin_at(const Stage& stage, std::int64_t start_ns);
  void end_at(std::int64_t end_ns);

  // Span::id of the span around all that are open; 0: there is none.
  std::uint64_t open_id() const { return depth_ == 0 ? 0 : open_[0].id; }

  // Spans that ended so far, and the number of the oldest that is still kept.
  std::uint64_t num_ended() const { return num_ended_; }
  std::uint64_t oldest() const { return num_ended_ < ring_.size() ? 0 : num_ended_ - ring_.size(); }
  // oldest() <= number < num_ended().
  const Span& operator[](std::uint64_t number) const { return ring_[number % ring_.size()]; }

  static constexpr std::size_t kMaxDepth = 16;

 private:
  std::vector<Span> ring_;
  std::uint64_t num_ended_ = 0;
  std::array<Span, kMaxDepth> open_;
  std::size_t depth_ = 0;
};

// A span as long as its scope.
class ScopedSpan {
 public:
  ScopedSpan(SpanRecorder* recorder, const Stage& stage)
      : recorder_(recorder), span_(recorder == nullptr ? nullptr : &recorder->begin(stage)) {}
  ~ScopedSpan() {
    if (recorder_ != nullptr) recorder_->end();
  }
  ScopedSpan(const ScopedSpan&) = delete;
  ScopedSpan& operator=(const ScopedSpan&) = delete;

  // To fill in more than the time; null where nothing is recorded.
  Span* get() const { return span_; }

 private:
  SpanRecorder* recorder_;
  Span* span_;
};

}  // namespace quire
