#include "exec/kv_storage.h"

#include "base/checked.h"

namespace quire {

Result<KvStorage> KvStorage::create(Device& device, const KvLayout& layout,
                                    std::int64_t layers_per_page, std::int64_t num_pages) {
  const auto layer_bytes = checked_mul(layout.block_bytes(), static_cast<std::uint64_t>(num_pages));
  const auto bytes = layer_bytes
                         ? checked_mul(*layer_bytes, static_cast<std::uint64_t>(layers_per_page))
                         : layer_bytes;
  if (!bytes) return Status::resource_exhausted("the KV cache's size does not fit in 64 bits");
  KvStorage storage;
  storage.layout_ = layout;
  QUIRE_ASSIGN_OR_RETURN(storage.buffer_, device.allocate(*bytes));
  for (std::int64_t i = 0; i < layers_per_page; ++i) {
    storage.layers_.push_back(storage.buffer_.data() +
                              static_cast<std::uint64_t>(i) * *layer_bytes);
  }
  return storage;
}

void KvStorage::copy_page(OpStream& ops, BlockId source, BlockId destination) const {
  const std::uint64_t bytes = layout_.block_bytes();
  for (std::byte* layer : layers_) {
    ops.copy(layer + static_cast<std::uint64_t>(source) * bytes, bytes,
             layer + static_cast<std::uint64_t>(destination) * bytes);
  }
}

}  // namespace quire
