// An executor over another one, which does all the work: for those who watch it or delay it, and
// override what they need to.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "exec/executor.h"

namespace quire {

class WrappedExecutor : public Executor {
 public:
  explicit WrappedExecutor(std::unique_ptr<Executor> inner) : inner_(std::move(inner)) {}

  Status submit(const SchedulerOutput& step) override { return inner_->submit(step); }
  Status sample(std::span<const TokenMask> masks) override { return inner_->sample(masks); }
  Status collect(ModelRunnerOutput& result) override { return inner_->collect(result); }
  std::uint64_t progress() const override { return inner_->progress(); }

 private:
  std::unique_ptr<Executor> inner_;
};

}  // namespace quire
