// The projections of queries, keys and values with what follows them head by head. Panels are
// handed out as for any product, so that a head may be computed by several workers: the one that
// completes it takes it on.
#include <algorithm>
#include <atomic>

#include "base/checked.h"
#include "kernels/matmul_call.h"
#include "kernels/op_span.h"
#include "kernels/ops.h"

namespace quire {
namespace {

// Heads as they become complete, for each chunk of rows on its own.
class HeadCounts {
 public:
  static std::int64_t size(std::int64_t rows, std::int64_t chunk_rows, std::int64_t num_heads) {
    return ceil_div(rows, chunk_rows) * num_heads;
  }

  // `counts`: of each head, [chunks of rows][num_heads]; set to zero.
  HeadCounts(std::int32_t* counts, std::int64_t rows, std::int64_t chunk_rows,
             const RopeAndCacheArgs& heads)
      : counts_(counts),
        chunk_rows_(chunk_rows),
        num_heads_(heads.all_heads()),
        head_dim_(heads.layout.head_dim) {
    std::fill_n(counts_, size(rows, chunk_rows, num_heads_), 0);
  }

  // Whether outputs [begin, end) of a chunk's rows complete a head that they are in. Any worker;
  // who completes a head sees what the others wrote.
  bool completes(std::int64_t head, std::int64_t row, std::int64_t begin, std::int64_t end) const {
    const std::int64_t first = head * head_dim_;
    const auto here =
        static_cast<std::int32_t>(std::min(end, first + head_dim_) - std::max(begin, first));
    if (here == head_dim_) return true;
    const std::atomic_ref count(counts_[row / chunk_rows_ * num_heads_ + head]);
    return count.fetch_add(here, std::memory_order_acq_rel) + here == head_dim_;
  }

 private:
  std::int32_t* counts_;
  std::int64_t chunk_rows_;
  std::int64_t num_heads_;
  std::int64_t head_dim_;
};

}  // namespace

std::uint64_t qkv_scratch_bytes(std::int64_t max_rows, std::int64_t num_heads) {
  return Arena::array_bytes<std::int32_t>(HeadCounts::size(max_rows, kMinChunkRows, num_heads));
}

void qkv_matmul(OpContext& ctx, const float* x, ActivationMode mode,
                std::span<const MatmulPart> parts, const RopeAndCacheArgs& heads,
                const Stage& stage) {
  const OpSpan span(ctx, stage);
  const std::int64_t rows = heads.num_tokens;
  if (span.get() != nullptr) span.get()->cost = cost_of(parts, rows);
  Arena workspace(ctx.workspace);
  const std::int64_t chunk_rows = ctx.table.matmul.chunk_rows;
  const MatmulCall call(ctx, x, parts[0].weight->inputs(), rows, chunk_rows, mode, parts,
                        workspace);
  const std::int64_t head_dim = heads.layout.head_dim;
  const HeadCounts counts(
      workspace.array<std::int32_t>(HeadCounts::size(rows, chunk_rows, heads.all_heads())), rows,
      chunk_rows, heads);

  // Takes on the heads that a tile completes, in runs of them.
  const auto take_on = [&](const MatmulPart& part, const MatmulTile& computed, int) {
    const std::int64_t column = part.out - heads.qkv;
    const std::int64_t begin = column + computed.panel_begin * kPanelOutputs;
    const std::int64_t end =
        column + std::min(computed.panel_end * kPanelOutputs, part.weight->outputs());
    HeadTile tile = {.token_begin = computed.row_begin, .token_end = computed.row_end};
    tile.head_begin = static_cast<std::int32_t>(begin / head_dim);
    tile.head_end = tile.head_begin;
    const auto end_run = [&] {
      if (tile.head_begin < tile.head_end) ctx.table.rows.rope_and_cache(heads, tile);
      tile.head_begin = ++tile.head_end;
    };
    for (std::int64_t head = begin / head_dim; head * head_dim < end; ++head) {
      if (counts.completes(head, computed.row_begin, begin, end)) {
        ++tile.head_end;
      } else {
        end_run();
      }
    }
    end_run();
  };
  call.compute_all(ctx.pool, parts, take_on);
}

}  // namespace quire
