// A packed panel that one warp multiplies while its bytes come in: a ring of chunks in shared
// memory, each some whole blocks of the panel (fragment_form.h), which one lane asks for ahead.
#pragma once

#include <cstdint>

#include "kernels/cuda/async_copies.cuh"
#include "kernels/cuda/products/fragment_form.h"

namespace quire::cuda {

template <WeightLayout kLayout>
struct StreamForm {
  static constexpr FragmentForm kForm = fragment_form(kLayout);
  static constexpr int kBlockGroups = static_cast<int>(kForm.block_groups);
  static constexpr int kBlockBytes = static_cast<int>(kForm.block_bytes);
  static constexpr int kGroupsAtOnce = 4;  // a chunk has whole runs of them

  static constexpr int chunk_blocks() {
    constexpr int kLeastBytes = 2300;
    int blocks = 1;
    while (blocks * kBlockBytes < kLeastBytes || blocks * kBlockGroups % kGroupsAtOnce != 0) {
      ++blocks;
    }
    return blocks;
  }
  static constexpr int kChunkBlocks = chunk_blocks();
  static constexpr int kChunkGroups = kChunkBlocks * kBlockGroups;
  static constexpr int kChunkBytes = kChunkBlocks * kBlockBytes;
  static_assert(kChunkBytes % 16 == 0);

  // Of a panel, those behind its header and before the tail that some have.
  __host__ __device__ static constexpr std::int64_t bytes(std::int64_t panel_bytes,
                                                          std::int64_t inputs) {
    if constexpr (is_codebook(kLayout)) return CodebookPanel::of(kLayout).tail_offset(inputs);
    return panel_bytes - kForm.header_bytes;
  }
};

template <WeightLayout kLayout, int kStages>
class PanelStream {
 public:
  using Form = StreamForm<kLayout>;
  static constexpr int kRingBytes = kStages * Form::kChunkBytes;

  // By all lanes of a warp. `ring`: kRingBytes, aligned to 16; `barriers`: kStages of 8 bytes; both
  // the stream's own.
  __device__ PanelStream(std::uint8_t* ring, std::uint64_t* barriers, int lane)
      : ring_(ring), barriers_(shared_address(barriers)), lane_(lane) {
    if (lane < kStages) barrier_init(barriers_ + 8 * lane, 1);
    fence_barrier_init();
    __syncwarp();
  }

  // Asks for chunks of a panel's `bytes`, which begin behind its header, behind those of the panel
  // before. The chunks of all panels but that one have been asked for by then.
  __device__ void add(const std::uint8_t* from, std::int64_t bytes) {
    next_from_ = from;
    next_bytes_ = bytes;
    fill();
  }

  // The next chunk, once it is there.
  __device__ const std::uint8_t* wait() {
    barrier_wait(barriers_ + 8 * stage_, parity_);
    return ring_ + stage_ * Form::kChunkBytes;
  }

  // Lets another chunk take the place of the one that wait() gave.
  __device__ void release() {
    __syncwarp();
    --num_asked_;
    if (++stage_ == kStages) {
      stage_ = 0;
      parity_ ^= 1U;
    }
    fill();
  }

 private:
  __device__ void fill() {
    for (; num_asked_ < kStages; ++num_asked_) {
      if (bytes_ <= 0) {
        from_ = next_from_;
        bytes_ = next_bytes_;
        next_bytes_ = 0;
      }
      if (bytes_ <= 0) return;
      if (lane_ == 0) {
        const auto bytes = static_cast<std::uint32_t>(
            bytes_ < Form::kChunkBytes ? bytes_ : std::int64_t{Form::kChunkBytes});
        const std::uint32_t barrier = barriers_ + 8 * next_;
        barrier_expect(barrier, bytes);
        copy_bytes(from_, bytes, shared_address(ring_ + next_ * Form::kChunkBytes), barrier);
      }
      from_ += Form::kChunkBytes;
      bytes_ -= Form::kChunkBytes;
      if (++next_ == kStages) next_ = 0;
    }
  }

  std::uint8_t* ring_;
  std::uint32_t barriers_;
  int lane_;
  const std::uint8_t* from_ = nullptr;
  std::int64_t bytes_ = 0;  // that nobody asked for yet
  const std::uint8_t* next_from_ = nullptr;
  std::int64_t next_bytes_ = 0;
  int num_asked_ = 0;  // chunks that are in the ring or on their way
  int next_ = 0;       // stage that is asked for next
  int stage_ = 0;      // that is waited for next
  std::uint32_t parity_ = 0;
};

}  // namespace quire::cuda
