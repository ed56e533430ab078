#include "nn/crossing.h"

#include <cassert>
#include <span>

namespace quire {

Crossing::Crossing(std::int64_t max_numbers) : numbers_(static_cast<std::size_t>(max_numbers)) {
  constexpr std::size_t kMostParts = 3;  // hidden states, streams, vectors of layers
  parts_.reserve(kMostParts);
}

void Crossing::add(const float* from, std::int64_t count, float* to) {
  parts_.push_back({from, static_cast<std::size_t>(count), to});
}

Status Crossing::cross(OpStream& from, OpStream& to) {
  std::size_t used = 0;
  for (const Part& part : parts_) {
    assert(used + part.count <= numbers_.size());
    from.download(part.from, static_cast<std::int64_t>(part.count), numbers_.data() + used);
    used += part.count;
  }
  Status status = from.synchronize();
  used = 0;
  for (const Part& part : parts_) {
    to.upload(std::span<const float>(numbers_).subspan(used, part.count), part.to);
    used += part.count;
  }
  parts_.clear();
  return status;
}

}  // namespace quire
