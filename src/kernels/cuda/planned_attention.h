// One step's attention on a GPU: the batch's arrays and how layers are split, in the GPU's memory.
//
// What launches depend on stays the same from step to step where the batch has as many sequences:
// lengths and plans are read from the GPU's memory, places there follow from numbers that are
// rounded up. So pieces of work repeat (piece_graphs.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/attention_paged_split.h"
#include "kernels/cuda/transfers.h"
#include "kernels/device.h"
#include "kernels/piece_key.h"

namespace quire::cuda {

class CudaPlannedAttention final : public PlannedAttention {
 public:
  // `workspace_bytes`: of attention().
  CudaPlannedAttention(Transfers& transfers, int multiprocessors, std::uint64_t workspace_bytes)
      : transfers_(transfers),
        multiprocessors_(multiprocessors),
        workspace_bytes_(workspace_bytes) {}

  void build(const AttentionBatch& batch) override;
  // Whether the launches of the layers that are known can be the same in another step.
  bool repeats() const;
  // What they depend on besides the layers' arguments.
  void add_to(PieceKey& key) const;

  // What attention() takes besides `args`. What a layer needs that no layer of an earlier step has
  // needed is staged by this call, everything else by build().
  struct Layer {
    AttentionInputs inputs;
    StagedSplit split;
    bool repeats = false;  // attention_repeats()
  };
  Layer layer(const AttentionArgs& args) const;

 private:
  // The same block tables in both memories.
  struct StagedTables {
    const BlockId* const* of_host = nullptr;
    const BlockId* of_device = nullptr;
  };
  // Layers that are split alike.
  struct Kind {
    std::int32_t num_heads = 0;
    std::int32_t num_kv_heads = 0;
    std::int32_t head_dim = 0;
    std::int32_t latent_dims = 0;
    std::int32_t window = 0;
    std::int32_t chunk = 0;
    SplitShape shape;

    static Kind of(const AttentionArgs& args, const SplitShape& shape);
    AttentionArgs args() const;
    bool operator==(const Kind&) const = default;
  };
  struct StagedKind {
    Kind kind;
    StagedSplit split;
  };

  const BlockId* stage_tables(const BlockId* const* block_tables) const;
  void stage_split(StagedKind& staged) const;

  Transfers& transfers_;
  int multiprocessors_;
  std::uint64_t workspace_bytes_;
  AttentionBatch batch_;
  AttentionInputs inputs_;
  // What the layers turned out to need.
  mutable std::int64_t block_size_ = 0;       // of the tables; 0: no layer has said it yet
  mutable std::int64_t table_stride_ = 0;     // of the step
  mutable std::vector<StagedTables> tables_;  // of the step
  mutable std::vector<StagedKind> kinds_;     // of all steps, with plans of this one
};

}  // namespace quire::cuda
