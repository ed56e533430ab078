// One step's attention on a GPU: the batch's arrays in the GPU's memory.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/transfers.h"
#include "kernels/device.h"

namespace quire::cuda {

class CudaPlannedAttention final : public PlannedAttention {
 public:
  explicit CudaPlannedAttention(Transfers& transfers) : transfers_(transfers) {}

  void build(const AttentionBatch& batch) override;
  // What attention() takes besides `args`, staged.
  AttentionInputs inputs(const AttentionArgs& args) const;

 private:
  // The same block tables in both memories.
  struct StagedTables {
    const BlockId* const* of_host = nullptr;
    const BlockId* of_device = nullptr;
  };

  // Staged once a step, however many layers have them.
  const BlockId* staged(const BlockId* const* block_tables, std::int64_t block_size,
                        std::int64_t stride) const;

  Transfers& transfers_;
  AttentionBatch batch_;
  AttentionInputs inputs_;
  mutable std::vector<StagedTables> tables_;
};

}  // namespace quire::cuda
