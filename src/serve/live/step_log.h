// The last steps as text, for viewers who read on from different places.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "serve/live/slot_map.h"
#include "serve/live/step_recorder.h"

namespace quire {

class StepLog {
 public:
  // Of more, the oldest steps are given up.
  static constexpr std::size_t kMaxSteps = 512;
  static constexpr std::size_t kMaxBytes = 256 * 1024;

  // The steps that follow those added before.
  void add(const StepRecorder::Taken& taken);

  // The number of the first step that is kept, and of the next one to come; steps are counted
  // without a gap, dropped ones too.
  std::uint64_t begin() const { return end_ - steps_.size(); }
  std::uint64_t end() const { return end_; }

  struct Text {
    std::string steps;  // "[...],[...]": each as in step_json()
    std::int64_t num_missed = 0;
  };
  // All steps from number `from` on, and how many of them are gone.
  Text since(std::uint64_t from) const;

 private:
  SlotMap slots_;
  bool slots_known_ = false;  // who runs already when the first step is seen is no newcomer
  std::deque<std::string> steps_;
  std::size_t num_bytes_ = 0;
  std::uint64_t end_ = 0;
};

// [step, start, duration, slot, request, tokens, slot, request, tokens, ...]: microseconds; tokens
// are 0 for a row that computes an output's last token and samples the next one, n > 0 for n tokens
// of a prompt (or of anything computed again), -1 for a row that nobody wants (static batching).
std::string step_json(const StepRecorder::Step& step, std::span<const SlotMap::Holder> holders,
                      bool newcomers_known);

}  // namespace quire
