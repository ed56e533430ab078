// The KV memory itself, of a device: pages, each of a block of one KvLayout for each of some
// layers, in one reservation that is touched as pages are first used. Which layers a page serves is
// the caller's matter; what differs by layer lies apart, block after block.
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
  static Result<KvStorage> create(Device& device, const KvLayout& layout,
                                  std::int64_t layers_per_page, std::int64_t num_pages);

  const KvLayout& layout() const { return layout_; }
  // [layers_per_page]: the blocks of each layer of the pages, in order of the pages.
  std::byte* const* layers() const { return layers_.data(); }
  std::uint64_t size_bytes() const { return buffer_.size(); }

  const Buffer& buffer() const { return buffer_; }

  // Copies a whole page, in every layer.
  void copy_page(OpStream& ops, BlockId source, BlockId destination) const;

 private:
  KvLayout layout_;
  Buffer buffer_;
  std::vector<std::byte*> layers_;
};

}  // namespace quire
