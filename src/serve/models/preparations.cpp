#include "serve/models/preparations.h"

#include <memory>
#include <utility>

#include <fmt/format.h>

namespace quire {

Status Preparations::post(std::function<void()> call) {
  const std::size_t least = num_waiting_[1] < num_waiting_[0] ? 1 : 0;
  std::atomic<std::size_t>& num_waiting = num_waiting_[least];
  if (num_waiting >= kMaxWaiting / kThreads) {
    return Status::resource_exhausted(
        fmt::format("{} requests wait for their constraints to be compiled", kMaxWaiting),
        "try again later");
  }
  QUIRE_RETURN_IF_ERROR(threads_[least].start());
  ++num_waiting;
  // However the call ends, or is dropped.
  const std::shared_ptr<void> leaves(nullptr, [&num_waiting](void*) { --num_waiting; });
  threads_[least].post([call = std::move(call), leaves] { call(); });
  return {};
}

void Preparations::stop() {
  for (DeferredCalls& each : threads_) each.stop();
}

}  // namespace quire
