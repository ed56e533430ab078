#include "exec/executor.h"

#include "weights/weight_source.h"

namespace quire {

Status Executor::update_weights(const std::vector<TensorInfo>& /*tensors*/) {
  return Status::unimplemented("update_weights: this engine has no weights");
}

bool Executor::take_tier_report(TierReport& report) {
  report = {};
  return false;
}

void Executor::on_tier_report(std::function<void()> /*tell*/) {}

std::int64_t Executor::keep_blocks(std::span<const BlockStore> /*blocks*/, Duration /*limit*/) {
  return 0;
}

}  // namespace quire
