// How blocks of attention with tensor cores move keys and values into shared memory (PTX ISA,
// "cp.async" and "mbarrier"); async_copies.cuh has the rest.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/async_copies.cuh"

namespace quire::cuda {

// Arrives at a barrier of this block.
__device__ inline void paged_arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Copies 16 bytes.
__device__ inline void copy_words(const std::byte* from, std::uint32_t to) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// Copies 4 bytes.
__device__ inline void copy_word(const std::byte* from, std::uint32_t to) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}

// Consecutive bytes into the L2 cache, a multiple of 16 of them, aligned to 16.
__device__ inline void prefetch_bytes(const std::byte* from, std::int32_t bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes));
}

// Arrives when all that this thread has copied is there.
__device__ inline void arrive_when_copied(std::uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// This thread's copies since the last call are a group.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until at most `kGroups` of the committed groups of this thread's copies are not done.
template <int kGroups>
__device__ void wait_copied() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

// Waits for other threads of the block that call it with the same id, `threads` in all.
__device__ inline void paged_meet(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// A place in a ring of buffers, each with a barrier that tells of what was copied and, `distance`
// bytes on, one that tells that it was read.
struct RingPlace {
  std::uint32_t barriers = 0;
  std::uint32_t distance = 0;
  std::uint32_t size = 1;
  std::uint32_t index = 0;
  std::uint32_t parity = 0;

  __device__ void advance(std::uint32_t by = 1) {
    index += by;
    if (index < size) return;
    index -= size;
    parity ^= 1U;
  }
  __device__ std::uint32_t full() const { return barriers + index * 8; }
  __device__ std::uint32_t empty() const { return full() + distance; }
  __device__ void wait_full() const { barrier_wait(full(), parity); }
  // The first time round, buffers are empty.
  __device__ void wait_empty() const { barrier_wait(empty(), parity ^ 1U); }
};

}  // namespace quire::cuda
