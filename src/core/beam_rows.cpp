#include "core/beam_rows.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace quire {

BeamRows::BeamRows(RequestId request_id, std::int32_t width)
    : request_id_(request_id), width_(width), ids_{request_id} {}

void BeamRows::lose_all() {
  num_placed_ = 0;
  num_told_ = 0;
  for (std::size_t i = 0; i < ids_.size(); ++i) ids_[i] = request_id_ + RequestId{i};
}

BeamRows::Changes BeamRows::follow(std::span<const BeamSearch::Beam> beams) {
  assert(num_placed_ == ids_.size());
  constexpr RequestId kNone = ~RequestId{0};
  Changes changes;
  std::vector<RequestId> unused;  // the lowest last
  for (RequestId i = static_cast<RequestId>(width_); i-- > 0;) unused.push_back(request_id_ + i);
  std::vector<RequestId> next(beams.size(), kNone);
  std::vector<RequestId> left = ids_;  // of parents that no child has followed
  for (std::size_t i = 0; i < beams.size(); ++i) {
    next[i] = std::exchange(left[static_cast<std::size_t>(beams[i].parent)], kNone);
    if (next[i] != kNone) std::erase(unused, next[i]);
  }
  std::ranges::copy_if(left, std::back_inserter(changes.dropped),
                       [](RequestId id) { return id != kNone; });
  for (std::size_t i = 0; i < beams.size(); ++i) {
    if (next[i] != kNone) continue;
    next[i] = unused.back();
    unused.pop_back();
    changes.forks.push_back({ids_[static_cast<std::size_t>(beams[i].parent)], next[i]});
  }
  ids_ = std::move(next);
  num_placed_ = ids_.size();
  num_told_ = 0;
  return changes;
}

Result<BeamRows> BeamRows::restore(const Snapshot& snapshot, RequestId request_id,
                                   std::int32_t width, std::size_t num_beams) {
  std::vector<RequestId> sorted = snapshot.ids;
  std::ranges::sort(sorted);
  const bool distinct = std::ranges::adjacent_find(sorted) == sorted.end();
  const auto is_own = [&](RequestId id) {
    return id >= request_id && id - request_id < static_cast<RequestId>(width);
  };
  const bool parted = snapshot.num_placed == num_beams;
  if (sorted.size() != num_beams || !distinct || !std::ranges::all_of(sorted, is_own) ||
      (!parted && snapshot.num_placed > 1) || snapshot.num_told > snapshot.num_placed) {
    return Status::invalid_argument("beams have rows that cannot be theirs");
  }
  BeamRows rows(request_id, width);
  rows.ids_ = snapshot.ids;
  rows.num_placed_ = snapshot.num_placed;
  rows.num_told_ = snapshot.num_told;
  return rows;
}

}  // namespace quire
