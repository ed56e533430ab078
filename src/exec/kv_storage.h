// The KV memory itself, of a device: for each layer, `num_blocks` blocks of one KvLayout, in one
// reservation that is touched as blocks are first used.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "kernels/device.h"
#include "kernels/kv_layout.h"
#include "tensor/buffer.h"

namespace quire {

class KvStorage {
 public:
  // In the memory of `device`, which must outlive it. kResourceExhausted where there is no room.
  static Result<KvStorage> create(Device& device, const KvLayout& layout, std::int64_t num_layers,
                                  std::int64_t num_blocks);

  const KvLayout& layout() const { return layout_; }
  std::byte* const* layers() const { return layers_.data(); }
  std::uint64_t size_bytes() const { return buffer_.size(); }

  const Buffer& buffer() const { return buffer_; }

  // Copies a whole block, in every layer.
  void copy_block(OpStream& ops, BlockId source, BlockId destination) const;

 private:
  KvLayout layout_;
  Buffer buffer_;
  std::vector<std::byte*> layers_;
};

}  // namespace quire
