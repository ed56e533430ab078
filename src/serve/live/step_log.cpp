#include "serve/live/step_log.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include <fmt/format.h>

namespace quire {
namespace {

std::int64_t microseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
}

}  // namespace

std::string step_json(const StepRecorder::Step& step, std::span<const SlotMap::Holder> holders,
                      bool newcomers_known) {
  std::string text = fmt::format("[{},{},{}", step.step_id, microseconds(step.start),
                                 microseconds(step.end - step.start));
  auto out = std::back_inserter(text);
  for (std::size_t i = 0; i < holders.size(); ++i) {
    const StepShare& share = step.shares[i];
    const bool starts = newcomers_known && holders[i].first;
    const bool decodes = share.use == RowUse::kTokens && share.num_tokens == 1 && !starts;
    const std::int32_t tokens = !share.wanted ? -1 : decodes ? 0 : share.num_tokens;
    fmt::format_to(out, ",{},{},{}", holders[i].slot, share.output_id, tokens);
  }
  text += ']';
  return text;
}

void StepLog::add(const StepRecorder::Taken& taken) {
  if (taken.num_dropped > 0) {  // what came before no longer joins up with what comes
    steps_.clear();
    num_bytes_ = 0;
    end_ += static_cast<std::uint64_t>(taken.num_dropped);
  }
  for (const StepRecorder::Step& step : taken.steps) {
    steps_.push_back(step_json(step, slots_.assign(step.shares), slots_known_));
    slots_known_ = true;
    num_bytes_ += steps_.back().size();
    ++end_;
    while (steps_.size() > kMaxSteps || (num_bytes_ > kMaxBytes && steps_.size() > 1)) {
      num_bytes_ -= steps_.front().size();
      steps_.pop_front();
    }
  }
}

StepLog::Text StepLog::since(std::uint64_t from) const {
  const std::uint64_t first = begin();
  Text text;
  if (from < first) text.num_missed = static_cast<std::int64_t>(first - from);
  for (std::uint64_t number = std::max(from, first); number < end_; ++number) {
    if (!text.steps.empty()) text.steps += ',';
    text.steps += steps_[static_cast<std::size_t>(number - first)];
  }
  return text;
}

}  // namespace quire
