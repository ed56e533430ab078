#include <algorithm>
#include <cassert>
#include <iterator>

#include "base/checked.h"
#include "kernels/attention_scratch.h"
#include "kernels/op_span.h"
#include "kernels/op_table.h"
#include "kernels/ops.h"
#include "kernels/sizing.h"

namespace quire {
namespace {

constexpr Stage kAttentionStage = {StageKind::kKernel, "attention"};

// The keys and values that a sequence's queries see are read once, shared ones once for all; a
// score costs two operations for each element of a key, its share of the output two for each of a
// value.
SpanCost cost_of(const AttentionPlan& plan, const AttentionArgs& args, bool uses_shared) {
  const AttentionBatch& batch = plan.batch();
  std::int64_t keys_read = uses_shared ? -plan.keys_saved() : 0;
  std::int64_t keys_seen = 0;  // by each query, summed
  for (std::int32_t s = 0; s < batch.num_seqs; ++s) {
    const std::int32_t queries = batch.query_start_loc[s + 1] - batch.query_start_loc[s];
    const std::int32_t first_position = batch.seq_lens[s] - queries;
    keys_read += batch.seq_lens[s] - first_visible_key(args, first_position);
    for (std::int32_t q = 0; q < queries; ++q) {
      const std::int32_t position = first_position + q;
      keys_seen += position + 1 - first_visible_key(args, position);
    }
  }
  return {.bytes = static_cast<std::uint64_t>(keys_read) * args.layout.token_bytes(),
          .operations = static_cast<std::uint64_t>(
              keys_seen * 2 * args.num_heads * (args.layout.head_dim + args.layout.value_dims()))};
}

const BlockId* const* tables_of(const AttentionBatch& batch, const AttentionArgs& args) {
  return args.block_tables != nullptr ? args.block_tables : batch.block_tables;
}

// The ranges of keys that queries from `first_position` on see in [key_begin, key_end).
AttentionTask task_of(const AttentionBatch& batch, const AttentionArgs& args,
                      const AttentionWork& work, bool uses_shared) {
  AttentionTask task;
  task.args = &args;
  task.block_table = tables_of(batch, args)[work.sequence];
  task.kv_head = work.kv_head;
  task.query_begin = work.query_begin;
  task.query_end = work.query_end;
  task.first_position =
      batch.seq_lens[work.sequence] - batch.query_start_loc[work.sequence + 1] + work.query_begin;
  const std::int32_t first_key = first_visible_key(args, task.first_position);
  // What is not shared after all belongs to the first piece.
  const bool whole_prefix = !uses_shared && work.key_begin == work.shared_keys;
  task.range_begin = std::max(whole_prefix ? 0 : work.key_begin, first_key) / kRangeKeys;
  task.range_end = static_cast<std::int32_t>(ceil_div(work.key_end, kRangeKeys));
  return task;
}

// Those of a prefix for some of the sequences that share it.
AttentionTask task_of(const AttentionPlan& plan, const AttentionArgs& args,
                      const SharedWork& work) {
  const auto first = static_cast<std::size_t>(work.member_begin);
  AttentionTask task;
  task.args = &args;
  task.block_table = tables_of(plan.batch(), args)[plan.members()[first]];
  task.kv_head = work.kv_head;
  task.query_end = work.member_end - work.member_begin;
  task.shared_queries = plan.member_queries().data() + first;
  task.shared_positions = plan.member_positions().data() + first;
  task.first_position = work.key_end - 1;
  task.range_end = work.key_end / kRangeKeys;
  return task;
}

// Where the partial results of a step lie in the workspace: those of ranges, then states.
class Partials {
 public:
  Partials(const OpContext& ctx, [[maybe_unused]] const AttentionPlan& plan,
           const AttentionArgs& args, std::uint64_t scratch_bytes)
      : floats_(PartialResults::floats(args.layout.head_dim,
                                       args.num_heads / args.layout.num_kv_heads)) {
    const std::uint64_t begin = scratch_bytes * static_cast<std::uint64_t>(ctx.pool.num_threads());
    assert(ctx.workspace.size() >=
           begin + static_cast<std::uint64_t>((plan.num_partials() + plan.num_states()) * floats_) *
                       sizeof(float));
    first_ = reinterpret_cast<float*>(ctx.workspace.data() + begin);
    states_ = first_ + plan.num_partials() * floats_;
  }

  std::int64_t floats() const { return floats_; }
  float* state(std::int64_t index) const { return index < 0 ? nullptr : states_ + index * floats_; }

  float* of(const AttentionWork& work) const {
    return work.partials < 0 ? nullptr : first_ + work.partials * floats_;
  }

 private:
  std::int64_t floats_;
  float* first_;
  float* states_;
};

}  // namespace

void attention(OpContext& ctx, const AttentionPlan& plan, const AttentionArgs& args) {
  const AttentionBatch& batch = plan.batch();
  const RowKernels& kernels = ctx.table.rows;
  const bool can_merge = kernels.merge_attention != nullptr;
  const bool uses_shared = can_merge && args.window == 0 && args.chunk == 0;
  const OpSpan span(ctx, kAttentionStage);
  if (span.get() != nullptr) span.get()->cost = cost_of(plan, args, uses_shared);
  const std::uint64_t scratch_bytes =
      attention_scratch_bytes(args.layout.head_dim, args.num_heads / args.layout.num_kv_heads);
  const Partials partials(ctx, plan, args, scratch_bytes);
  const auto scratch_of = [&](int worker) {
    return reinterpret_cast<float*>(ctx.workspace.data() +
                                    scratch_bytes * static_cast<std::uint64_t>(worker));
  };
  if (uses_shared && !plan.shared().empty()) {
    ctx.pool.parallel_for(std::ssize(plan.shared()), 1,
                          [&](std::int64_t begin, std::int64_t end, int worker) {
                            for (std::int64_t i = begin; i < end; ++i) {
                              const SharedWork& work = plan.shared()[static_cast<std::size_t>(i)];
                              AttentionTask task = task_of(plan, args, work);
                              task.scratch = scratch_of(worker);
                              const std::int64_t heads = args.layout.num_kv_heads;
                              task.state = partials.state(work.member_begin * heads + work.kv_head);
                              task.state_stride = heads * partials.floats();
                              kernels.attention(task);
                            }
                          });
  }
  const auto run = [&](const AttentionWork& work, int worker) {
    AttentionTask task = task_of(batch, args, work, uses_shared);
    task.scratch = scratch_of(worker);
    task.partials = partials.of(work);
    if (uses_shared && task.partials == nullptr) task.state = partials.state(work.state);
    kernels.attention(task);
  };
  ctx.pool.parallel_for(std::ssize(plan.work()), 1,
                        [&](std::int64_t begin, std::int64_t end, int worker) {
                          for (std::int64_t i = begin; i < end; ++i) {
                            const AttentionWork& work = plan.work()[static_cast<std::size_t>(i)];
                            if (can_merge || work.partials < 0) run(work, worker);
                          }
                        });
  if (plan.splits().empty()) return;
  ctx.pool.parallel_for(std::ssize(plan.splits()), 1,
                        [&](std::int64_t begin, std::int64_t end, int worker) {
                          for (std::int64_t i = begin; i < end; ++i) {
                            AttentionWork work = plan.splits()[static_cast<std::size_t>(i)];
                            if (can_merge) {
                              AttentionTask task = task_of(batch, args, work, uses_shared);
                              task.partials = partials.of(work);
                              if (uses_shared) task.state = partials.state(work.state);
                              kernels.merge_attention(task);
                            } else {
                              work.partials = -1;
                              run(work, worker);
                            }
                          }
                        });
}

}  // namespace quire
