// The last steps of an engine, for pictures of who was in which.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/api.h"

namespace quire::python {

class StepRing {
 public:
  // What is kept: so many steps, and fewer where they have more rows than that in all.
  static constexpr std::size_t kMaxSteps = 4096;
  static constexpr std::size_t kMaxRows = 65'536;

  void add(const StepRecord& step);  // EngineObserver::stepped

  // {"slots", "steps": [{"start_s", "end_s", "rows": [{"slot", "request", "num_tokens", "samples",
  // "wanted"}]}]}, from the first step on that is kept. Requests are counted in the order in which
  // they first ran; a slot is a row of a batch of so many.
  json::object to_json(std::int32_t num_slots) const;
  // The same as a page of its own (apps/timeline_page.h).
  std::string to_html(std::int32_t num_slots, const std::string& name) const;

 private:
  struct Step {
    StepId step_id = 0;
    Instant start{};
    Instant end{};
    std::vector<StepShare> shares;
  };
  std::deque<Step> copy() const;

  mutable std::mutex mutex_;
  std::deque<Step> steps_;
  std::size_t num_rows_ = 0;
};

}  // namespace quire::python
