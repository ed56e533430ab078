// What requests ask for done to copies of their rows of logits, as
// kernels/sampling/logit_editor.cpp defines it, to the bit. A cluster of blocks has a row. Lists
// are marked at their tokens, and then all tokens are gone through.
#include <cfloat>
#include <cstdint>

#include "kernels/cuda/pdl_launch.cuh"
#include "kernels/cuda/rows/cluster_row.cuh"
#include "kernels/cuda/sampling/logit_edits.cuh"
#include "kernels/cuda/sampling/number_order.cuh"
#include "kernels/cuda/sampling/sampling_steps.h"

namespace quire::cuda {
namespace {

constexpr float kBannedLogit = -INFINITY;

// Marks of a token; below them, how often it is in the output.
constexpr std::uint32_t kAllowedMark = 1U << 31U;
constexpr std::uint32_t kBannedMark = 1U << 30U;
constexpr std::uint32_t kSeenMark = 1U << 29U;
constexpr std::uint32_t kCountMask = kSeenMark - 1;

__device__ float repeated(float logit, double penalty) {
  constexpr double kMost = FLT_MAX;
  const double value = logit;
  const double changed = value > 0 ? value / penalty : value * penalty;
  return static_cast<float>(changed < -kMost ? -kMost : changed > kMost ? kMost : changed);
}

// Shared memory of a block.
struct EditShared {
  int any_left;
  Place of_warps[kRowWarps];
  Place of_blocks[kRowCluster];
};

template <bool kAligned>
class RowEditing {
 public:
  __device__ RowEditing(const SampledRows& rows, std::int64_t index, EditShared& shared)
      : edits_(rows.args[index].edits),
        row_(rows.logits + index * rows.vocab_size, rows.vocab_size),
        logits_(rows.edited + index * rows.vocab_size),
        marks_(rows.marks + index * rows.vocab_size),
        best_(rows.edited_best + index),
        shared_(shared) {}

  __device__ void apply() {
    if (threadIdx.x == 0) shared_.any_left = 0;
    row_.for_each_quad(row_.own(), [&](float4, std::int64_t quad) {
      store_quad(make_float4(0.0F, 0.0F, 0.0F, 0.0F), quad, row_.vocab(), as_floats(marks_));
    });
    row_cluster().sync();
    mark_lists();
    row_cluster().sync();
    if (!edits_.biases.empty()) {
      for_each_quad([&](float4 logits, const QuadMarks&, std::int64_t quad) {
        store_quad(logits, quad, row_.vocab(), logits_);
      });
      row_cluster().sync();
      add_biases();
      row_cluster().sync();
      are_copied_ = true;
    }
    const bool bans = !edits_.banned.empty() && are_any_left();
    Place best;
    for_each_quad([&](float4 logits, const QuadMarks& marks, std::int64_t quad) {
      logits.x = edited(logits.x, marks.of[0], bans);
      logits.y = edited(logits.y, marks.of[1], bans);
      logits.z = edited(logits.z, marks.of[2], bans);
      logits.w = edited(logits.w, marks.of[3], bans);
      store_quad(logits, quad, row_.vocab(), logits_);
      for_each_of_quad(logits, quad, row_.vocab(), [&](float logit, std::int64_t token) {
        best.see(logit, static_cast<std::int32_t>(token));
      });
    });
    find_best(best);
  }

 private:
  struct QuadMarks {
    std::uint32_t of[4];
  };
  __device__ static float* as_floats(std::uint32_t* marks) {
    return reinterpret_cast<float*>(marks);
  }

  // Calls fn(logits, marks, quad) for the quads of this thread, with masks and lists of allowed
  // tokens applied, and biases once they are added.
  template <typename F>
  __device__ void for_each_quad(const F& fn) {
    row_.for_each_quad(row_.own(), [&](float4 logits, std::int64_t quad) {
      const float4 read = load_quad<kAligned>(as_floats(marks_), quad, row_.vocab());
      const QuadMarks marks = {{__float_as_uint(read.x), __float_as_uint(read.y),
                                __float_as_uint(read.z), __float_as_uint(read.w)}};
      if (are_copied_) {
        logits = load_quad<kAligned>(logits_, quad, row_.vocab());
      } else {
        if (!is_allowed(4 * quad, marks.of[0])) logits.x = kBannedLogit;
        if (!is_allowed(4 * quad + 1, marks.of[1])) logits.y = kBannedLogit;
        if (!is_allowed(4 * quad + 2, marks.of[2])) logits.z = kBannedLogit;
        if (!is_allowed(4 * quad + 3, marks.of[3])) logits.w = kBannedLogit;
      }
      fn(logits, marks, quad);
    });
  }

  // Calls fn(i) for i < count, each by one thread of the cluster.
  template <typename F>
  __device__ void share(std::size_t count, const F& fn) {
    constexpr std::size_t kThreads = kRowThreads * kRowCluster;
    const std::size_t first = row_cluster().block_rank() * kRowThreads + threadIdx.x;
    for (std::size_t i = first; i < count; i += kThreads) fn(i);
  }

  __device__ void mark_lists() {
    const auto mark = [&](TokenId id, std::uint32_t as) { atomicOr(marks_ + id, as); };
    share(edits_.allowed.size(),
          [&](std::size_t i) { mark(edits_.allowed.data()[i], kAllowedMark); });
    share(edits_.banned.size(), [&](std::size_t i) { mark(edits_.banned.data()[i], kBannedMark); });
    if (!has_penalties(edits_)) return;
    const auto first_of_output = static_cast<std::size_t>(edits_.num_prompt_tokens);
    share(edits_.token_ids.size(), [&](std::size_t i) {
      const TokenId id = edits_.token_ids.data()[i];
      mark(id, kSeenMark);
      if (i >= first_of_output) atomicAdd(marks_ + id, 1U);
    });
  }

  __device__ bool is_allowed(std::int64_t token, std::uint32_t marks) const {
    const auto word = static_cast<std::size_t>(token / 32);
    if (!edits_.mask.empty() &&
        (word >= edits_.mask.size() || (edits_.mask.data()[word] >> (token % 32) & 1U) == 0)) {
      return false;
    }
    return edits_.allowed.empty() || (marks & kAllowedMark) != 0;
  }

  // A token's first bias adds them all, in their order.
  __device__ void add_biases() {
    const LogitBias* const biases = edits_.biases.data();
    const std::size_t count = edits_.biases.size();
    if (count > kMostDeviceBiases) return;
    share(count, [&](std::size_t i) {
      const TokenId id = biases[i].token_id;
      float logit = logits_[id];
      for (std::size_t j = 0; j < count; ++j) {
        if (biases[j].token_id != id) continue;
        if (j < i) return;
        logit += biases[j].bias;
      }
      logits_[id] = logit;
    });
  }

  // Whether some token is left if all that shall be are banned.
  __device__ bool are_any_left() {
    bool any = false;
    for_each_quad([&](float4 logits, const QuadMarks& marks, std::int64_t quad) {
      for_each_of_quad(logits, quad, row_.vocab(), [&](float logit, std::int64_t token) {
        any = any || (logit > kBannedLogit && (marks.of[token % 4] & kBannedMark) == 0);
      });
    });
    any = __any_sync(~0U, any);
    if (any && threadIdx.x % 32 == 0) {
      for (unsigned block = 0; block < kRowCluster; ++block) {
        *row_cluster().map_shared_rank(&shared_.any_left, block) = 1;
      }
    }
    row_cluster().sync();
    return shared_.any_left != 0;
  }

  __device__ float edited(float logit, std::uint32_t marks, bool bans) const {
    if (bans && (marks & kBannedMark) != 0) logit = kBannedLogit;
    if (edits_.repetition_penalty != 1 && (marks & kSeenMark) != 0 && logit != kBannedLogit) {
      logit = repeated(logit, edits_.repetition_penalty);
    }
    const std::uint32_t count = marks & kCountMask;
    if (count == 0) return logit;
    const float by_count =
        __fmul_rn(static_cast<float>(edits_.frequency_penalty), static_cast<float>(count));
    return __fsub_rn(__fsub_rn(logit, by_count), static_cast<float>(edits_.presence_penalty));
  }

  __device__ void find_best(Place place) {
    place = first_largest_of_warp(place);
    const unsigned lane = threadIdx.x % 32;
    if (lane == 0) shared_.of_warps[threadIdx.x / 32] = place;
    __syncthreads();
    if (threadIdx.x < 32) {
      place = first_largest_of_warp(lane < kRowWarps ? shared_.of_warps[lane] : Place{});
      Place* const of_blocks = row_cluster().map_shared_rank(shared_.of_blocks, 0);
      if (lane == 0) of_blocks[row_cluster().block_rank()] = place;
    }
    row_cluster().sync();
    if (row_cluster().block_rank() != 0 || threadIdx.x >= 32) return;
    place = first_largest_of_warp(lane < kRowCluster ? shared_.of_blocks[lane] : Place{});
    if (lane == 0) *best_ = {.value = number_of_order(place.order), .index = place.index};
  }

  const LogitEdits& edits_;
  RowRegions<kAligned> row_;
  float* logits_;
  std::uint32_t* marks_;
  RowBest* best_;
  EditShared& shared_;
  bool are_copied_ = false;  // logits_ has the row, with biases
};

template <bool kAligned>
__global__ void __launch_bounds__(kRowThreads, 2)
    edit_logits(const __grid_constant__ SampledRows rows) {
  __shared__ EditShared shared;
  let_next_start();
  wait_for_previous();
  const std::int64_t index = blockIdx.x / kRowCluster;
  if (has_edits(rows.args[index].edits)) RowEditing<kAligned>(rows, index, shared).apply();
}

}  // namespace

void edit_rows(const Launch& launch, const SampledRows& rows) {
  if (rows.num_rows == 0) return;
  launch_dependent_clusters(rows.aligned() ? edit_logits<true> : edit_logits<false>,
                            static_cast<unsigned>(rows.num_rows) * kRowCluster, kRowThreads,
                            kRowCluster, 0, launch.stream, rows);
}

}  // namespace quire::cuda
