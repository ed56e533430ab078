// Copies into shared memory that run beside threads, and the barriers that tell of them (PTX ISA,
// "mbarrier" and "cp.async.bulk.tensor"; the Tensor Memory Accelerator of sm_90).
#pragma once

#include <cstdint>
#include <cuda.h>

namespace quire::cuda {

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// Barriers are named by their addresses in shared memory. A phase of one is over when `arrivals`
// threads have arrived and all bytes that were announced are there.
__device__ inline void barrier_init(std::uint32_t barrier, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

// Makes what barrier_init() wrote visible to copies and to the blocks of a cluster.
__device__ inline void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrives, and announces bytes of copies.
__device__ inline void barrier_expect(std::uint32_t barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// Arrives. It orders no writes of this thread: it says that something is not read any more.
__device__ inline void barrier_arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Until the phase of this parity is over.
__device__ inline void barrier_wait(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{.reg .pred done; again: "
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; "
      "@!done bra again;}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// Copies a box whose first element is (column, row) of the tensor, zeros where the tensor has none,
// to `to`, which is aligned to 128, or to 1024 where there is a swizzle, and tells a barrier.
__device__ inline void copy_box(const CUtensorMap& tensor, std::int32_t column, std::int32_t row,
                                std::uint32_t to, std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(&tensor), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}

// The same of a tensor of three dimensions.
__device__ inline void copy_box(const CUtensorMap& tensor, std::int32_t column, std::int32_t row,
                                std::int32_t plane, std::uint32_t to, std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
      "l"(&tensor), "r"(column), "r"(row), "r"(plane), "r"(barrier)
      : "memory");
}

// Consecutive bytes, a multiple of 16 of them, aligned to 16.
__device__ inline void copy_bytes(const void* from, std::uint32_t bytes, std::uint32_t to,
                                  std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

// The other way: from shared memory, where the tensor has elements. Threads that wrote what is
// copied call fence_shared_writes() before, and then meet the one that copies.
__device__ inline void store_box(const CUtensorMap& tensor, std::int32_t column, std::int32_t row,
                                 std::uint32_t from) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&tensor),
      "r"(column), "r"(row), "r"(from)
      : "memory");
}

__device__ inline void fence_shared_writes() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Stores of this thread since the last call are a group.
__device__ inline void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Until at most `kGroups` groups of this thread's stores still read shared memory.
template <int kGroups>
__device__ void wait_for_store_reads() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kGroups) : "memory");
}

// Until all of this thread's stores are done.
__device__ inline void wait_for_stores() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

}  // namespace quire::cuda
