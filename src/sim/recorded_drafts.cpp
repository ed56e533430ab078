#include "sim/recorded_drafts.h"

#include <algorithm>
#include <utility>

#include "base/random.h"

namespace quire {
namespace {

constexpr std::uint64_t kWhetherDrafted = 0x574844;

// Of steps at the same place only the last, which counts.
void keep_last(std::vector<DraftedStep>& steps) {
  std::ranges::stable_sort(steps, {}, &DraftedStep::place);
  std::vector<DraftedStep> kept;
  for (const DraftedStep& step : steps) {
    if (!kept.empty() && kept.back().place == step.place) kept.pop_back();
    kept.push_back(step);
  }
  steps = std::move(kept);
}

}  // namespace

double RecordedDrafts::Tried::rate() const {
  return right + wrong == 0 ? 0 : static_cast<double>(right) / static_cast<double>(right + wrong);
}

RecordedDrafts::RecordedDrafts(std::vector<std::vector<DraftedStep>> requests) {
  for (std::vector<DraftedStep>& steps : requests) {
    OfRequest& request = requests_.emplace_back();
    request.steps = std::move(steps);
    keep_last(request.steps);
    for (const DraftedStep& step : request.steps) {
      request.tried.right += step.num_right;
      request.tried.wrong += step.num_right < step.num_drafts ? 1 : 0;
      ++request.tried.steps;
      request.tried.steps_with_drafts += step.num_drafts > 0 ? 1 : 0;
      most_ = std::max(most_, static_cast<std::size_t>(step.num_drafts));
    }
    all_.right += request.tried.right;
    all_.wrong += request.tried.wrong;
  }
}

const DraftedStep* RecordedDrafts::find(const OfRequest& request, std::int64_t place) {
  const auto behind = std::ranges::upper_bound(request.steps, place, {}, &DraftedStep::place);
  return behind == request.steps.begin() ? nullptr : &*(behind - 1);
}

std::size_t RecordedDrafts::count(std::size_t index, std::int64_t place, std::size_t limit) const {
  const OfRequest& request = requests_[index];
  const DraftedStep* const step = find(request, place);
  if (step != nullptr && step->place == place) {
    const auto had = static_cast<std::size_t>(step->num_drafts);
    return had == most_ ? limit : std::min(had, limit);
  }
  const double share = request.tried.steps == 0
                           ? 0
                           : static_cast<double>(request.tried.steps_with_drafts) /
                                 static_cast<double>(request.tried.steps);
  const double drawn =
      random_uniform(mix64(index ^ kWhetherDrafted), static_cast<std::uint64_t>(place));
  return drawn < share ? limit : 0;
}

double RecordedDrafts::chance(std::size_t index, std::int64_t place) const {
  const OfRequest& request = requests_[index];
  if (const DraftedStep* const step = find(request, place)) {
    const std::int64_t right_before = std::int64_t{step->place} + step->num_right;
    if (place < right_before) return 1;
    if (place == right_before && step->num_right < step->num_drafts) return 0;
  }
  const Tried& own = request.tried;
  return own.right + own.wrong >= kFewestGuesses ? own.rate() : all_.rate();
}

}  // namespace quire
