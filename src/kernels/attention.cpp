#include <cassert>

#include "kernels/op_table.h"
#include "kernels/ops.h"
#include "kernels/sizing.h"

namespace quire {

void attention(OpContext& ctx, const AttentionPlan& plan, const AttentionArgs& args) {
  const AttentionBatch& batch = plan.batch();
  const std::uint64_t scratch_bytes =
      attention_scratch_bytes(args.layout.head_dim, args.num_heads / args.layout.num_kv_heads);
  assert(ctx.workspace.size() >=
         scratch_bytes * static_cast<std::uint64_t>(ctx.pool.num_threads()));
  const auto count = static_cast<std::int64_t>(plan.work().size());
  ctx.pool.parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end, int worker) {
    std::byte* const scratch =
        ctx.workspace.data() + scratch_bytes * static_cast<std::uint64_t>(worker);
    for (std::int64_t i = begin; i < end; ++i) {
      const AttentionWork& work = plan.work()[static_cast<std::size_t>(i)];
      AttentionTask task;
      task.args = &args;
      task.block_table = batch.block_tables[work.sequence];
      task.kv_head = work.kv_head;
      task.query_begin = work.query_begin;
      task.query_end = work.query_end;
      task.first_position = batch.seq_lens[work.sequence] -
                            batch.query_start_loc[work.sequence + 1] + work.query_begin;
      task.scratch = reinterpret_cast<float*>(scratch);
      ctx.table.rows.attention(task);
    }
  });
}

}  // namespace quire
