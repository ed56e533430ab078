// The KV memory itself: for each layer, `num_blocks` blocks of one KvLayout, in one reservation
// that is touched as blocks are first used.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "kernels/kv_layout.h"
#include "tensor/buffer.h"
#include "tensor/thread_pool.h"

namespace quire {

class KvStorage {
 public:
  // kResourceExhausted where the system refuses the reservation.
  static Result<KvStorage> create(const KvLayout& layout, std::int64_t num_layers,
                                  std::int64_t num_blocks);

  const KvLayout& layout() const { return layout_; }
  std::byte* const* layers() const { return layers_.data(); }
  std::uint64_t size_bytes() const { return buffer_.size(); }

  // Touches all pages, in parallel.
  void prefault(ThreadPool& pool);

  // Copies a whole block, in every layer.
  void copy_block(BlockId source, BlockId destination);

 private:
  KvLayout layout_;
  Buffer buffer_;
  std::vector<std::byte*> layers_;
};

}  // namespace quire
