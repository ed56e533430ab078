#include "serve/live/slot_map.h"

#include <algorithm>

namespace quire {

std::span<const SlotMap::Holder> SlotMap::assign(std::span<const StepShare> shares) {
  // Slots of those that are gone become free before newcomers get the lowest.
  next_.clear();
  taken_.assign(taken_.size(), false);
  for (const StepShare& share : shares) {
    const auto held = holders_.find(share.output_id);
    if (held == holders_.end()) continue;
    held->second.first = false;
    next_.insert(*held);
    taken_[static_cast<std::size_t>(held->second.slot)] = true;
  }
  for (const StepShare& share : shares) {
    if (next_.contains(share.output_id)) continue;
    const auto free = std::find(taken_.begin(), taken_.end(), false);
    const auto slot = static_cast<std::int32_t>(free - taken_.begin());
    if (free == taken_.end()) {
      taken_.push_back(true);
    } else {
      *free = true;
    }
    next_[share.output_id] = {.slot = slot, .arrival = num_outputs_++, .first = true};
  }
  holders_.swap(next_);
  rows_.clear();
  for (const StepShare& share : shares) rows_.push_back(holders_.at(share.output_id));
  return rows_;
}

}  // namespace quire
