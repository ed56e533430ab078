#include "serve/http/body_budget.h"

#include <utility>

namespace quire {

BodyBudget::Body::Body(BodyBudget& budget, std::function<void()> give_way, TimePoint now)
    : budget_(budget), give_way_(std::move(give_way)), progressed_(now) {
  place_ = budget_.receiving_.insert(budget_.receiving_.end(), this);
}

BodyBudget::Body::~Body() { release(); }

bool BodyBudget::Body::update(std::uint64_t received_bytes, std::uint64_t held_bytes,
                              TimePoint now) {
  if (received_bytes >= marked_bytes_ + kProgressBytes) {
    marked_bytes_ = received_bytes;
    progressed_ = now;
  }
  budget_.held_bytes_ += held_bytes - held_bytes_;
  held_bytes_ = held_bytes;
  while (budget_.held_bytes_ > budget_.max_bytes_) {
    Body* slowest = budget_.slowest(now);
    if (slowest == nullptr || slowest == this) return false;
    slowest->release();
    slowest->give_way_();
  }
  return true;
}

void BodyBudget::Body::complete() {
  if (std::exchange(receiving_, false)) budget_.receiving_.erase(place_);
}

void BodyBudget::Body::release() {
  complete();
  budget_.held_bytes_ -= std::exchange(held_bytes_, 0);
}

BodyBudget::Body* BodyBudget::slowest(TimePoint now) const {
  Body* found = nullptr;
  for (Body* body : receiving_) {
    if (body->held_bytes_ == 0 || now - body->progressed_ < kProgressTime) continue;
    if (found == nullptr || body->progressed_ < found->progressed_) found = body;
  }
  return found;
}

}  // namespace quire
