#include <cassert>

#include "kernels/op_span.h"
#include "kernels/op_table.h"
#include "kernels/ops.h"
#include "kernels/sizing.h"

namespace quire {
namespace {

constexpr Stage kAttentionStage = {StageKind::kKernel, "attention"};

// The keys and values that a sequence's queries see are read once; a score and its share of the
// output take four operations for each element of a head.
SpanCost cost_of(const AttentionBatch& batch, const AttentionArgs& args) {
  std::int64_t keys_read = 0;
  std::int64_t keys_seen = 0;  // by each query, summed
  for (std::int32_t s = 0; s < batch.num_seqs; ++s) {
    const std::int32_t queries = batch.query_start_loc[s + 1] - batch.query_start_loc[s];
    const std::int32_t first_position = batch.seq_lens[s] - queries;
    keys_read += batch.seq_lens[s] - first_visible_key(args.window, first_position);
    for (std::int32_t q = 0; q < queries; ++q) {
      const std::int32_t position = first_position + q;
      keys_seen += position + 1 - first_visible_key(args.window, position);
    }
  }
  return {.bytes = static_cast<std::uint64_t>(keys_read * 2 * args.layout.num_kv_heads) *
                   args.layout.row_bytes(),
          .operations =
              static_cast<std::uint64_t>(keys_seen * 4 * args.num_heads * args.layout.head_dim)};
}

}  // namespace

void attention(OpContext& ctx, const AttentionPlan& plan, const AttentionArgs& args) {
  const AttentionBatch& batch = plan.batch();
  const OpSpan span(ctx, kAttentionStage);
  if (span.get() != nullptr) span.get()->cost = cost_of(batch, args);
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
