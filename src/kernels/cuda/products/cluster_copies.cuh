// What blocks of a cluster need that copy for each other (PTX ISA, "cp.async.bulk.tensor" with
// .multicast::cluster, "mapa").
#pragma once

#include <cstdint>
#include <cuda.h>

namespace quire::cuda {

// Of this block in its cluster.
__device__ inline std::uint32_t cluster_rank() {
  std::uint32_t rank = 0;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Until all threads of the cluster that have not ended are here. Orders no writes but those that
// fence_barrier_init() made visible.
__device__ inline void synchronize_cluster() {
  asm volatile("barrier.cluster.arrive.relaxed; barrier.cluster.wait;" ::: "memory");
}

// copy_box() to the same place of each block of the cluster that has a bit in `blocks`, whose own
// barriers are told.
__device__ inline void copy_box_to_blocks(const CUtensorMap& tensor, std::int32_t column,
                                          std::int32_t row, std::uint32_t to, std::uint32_t barrier,
                                          std::uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(&tensor), "r"(column), "r"(row), "r"(barrier), "h"(blocks)
      : "memory");
}

// barrier_arrive() at the barrier that stands in this place of block `rank` of the cluster. As that
// function it orders nothing beyond this block, which would cost a fence of the whole device.
__device__ inline void barrier_arrive_at(std::uint32_t barrier, std::uint32_t rank) {
  asm volatile(
      "{.reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; "
      "mbarrier.arrive.shared::cluster.b64 _, [there];}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

}  // namespace quire::cuda
