#include "exec/kv_storage.h"

#include "base/checked.h"

namespace quire {

Result<KvStorage> KvStorage::create(Device& device, std::uint64_t slot_bytes,
                                    std::int64_t slots_per_page, std::int64_t num_pages) {
  const auto all_of_slot = checked_mul(slot_bytes, static_cast<std::uint64_t>(num_pages));
  const auto bytes = all_of_slot
                         ? checked_mul(*all_of_slot, static_cast<std::uint64_t>(slots_per_page))
                         : all_of_slot;
  if (!bytes) return Status::resource_exhausted("the KV cache's size does not fit in 64 bits");
  KvStorage storage;
  storage.slot_bytes_ = slot_bytes;
  QUIRE_ASSIGN_OR_RETURN(storage.buffer_, device.allocate(*bytes));
  for (std::int64_t i = 0; i < slots_per_page; ++i) {
    storage.slots_.push_back(storage.buffer_.data() + static_cast<std::uint64_t>(i) * *all_of_slot);
  }
  return storage;
}

void KvStorage::copy_page(OpStream& ops, BlockId source, BlockId destination) const {
  for (std::byte* slot : slots_) {
    ops.copy(slot + static_cast<std::uint64_t>(source) * slot_bytes_, slot_bytes_,
             slot + static_cast<std::uint64_t>(destination) * slot_bytes_);
  }
}

void KvStorage::read_page(OpStream& ops, BlockId page, std::span<std::byte> to) const {
  for (const std::byte* slot : slots_) {
    ops.download(slot + static_cast<std::uint64_t>(page) * slot_bytes_,
                 static_cast<std::int64_t>(slot_bytes_), to.data());
    to = to.subspan(slot_bytes_);
  }
}

void KvStorage::write_page(OpStream& ops, BlockId page, std::span<const std::byte> from) const {
  const std::byte* staged = ops.stage(from);
  for (std::byte* slot : slots_) {
    ops.copy(staged, slot_bytes_, slot + static_cast<std::uint64_t>(page) * slot_bytes_);
    staged += slot_bytes_;
  }
}

}  // namespace quire
