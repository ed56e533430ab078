// Which slot of the batch an output holds, for pictures: the engine itself has no slots, only the
// requests of each step. Who goes on running keeps its slot; newcomers get the lowest free ones.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/api.h"

namespace quire {

class SlotMap {
 public:
  struct Holder {
    std::int32_t slot = 0;
    std::int64_t arrival = 0;  // counted from 0 in the order in which outputs first ran
    bool first = false;        // this is its first step (again, after a preemption)
  };

  // The holders of a step's rows, in their order; valid until the next call.
  std::span<const Holder> assign(std::span<const StepShare> shares);

 private:
  std::vector<bool> taken_;
  std::unordered_map<RequestId, Holder> holders_;
  std::unordered_map<RequestId, Holder> next_;
  std::vector<Holder> rows_;
  std::int64_t num_outputs_ = 0;
};

}  // namespace quire
