// The KV memory itself, of a device: pages of some slots of equal bytes, in one reservation that is
// touched as pages are first used. What lies in a slot is the caller's matter: a block of a layer,
// or of several. Slots lie apart, page after page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "kernels/device.h"
#include "tensor/buffer.h"

namespace quire {

class KvStorage {
 public:
  // In the memory of `device`, which must outlive it. kResourceExhausted where there is no room.
  static Result<KvStorage> create(Device& device, std::uint64_t slot_bytes,
                                  std::int64_t slots_per_page, std::int64_t num_pages);

  // [slots_per_page]: that slot of all pages, slot_bytes apart, in order of the pages.
  std::byte* const* slots() const { return slots_.data(); }
  std::uint64_t size_bytes() const { return buffer_.size(); }
  std::uint64_t page_bytes() const { return slots_.size() * slot_bytes_; }

  const Buffer& buffer() const { return buffer_; }

  // Copies a whole page, in every slot.
  void copy_page(OpStream& ops, BlockId source, BlockId destination) const;
  // The same from and to the host's memory, page_bytes() with slot after slot. What is read is
  // there, and what is written may change again, when the stream is synchronized.
  void read_page(OpStream& ops, BlockId page, std::span<std::byte> to) const;
  void write_page(OpStream& ops, BlockId page, std::span<const std::byte> from) const;

 private:
  std::uint64_t slot_bytes_ = 0;
  Buffer buffer_;
  std::vector<std::byte*> slots_;
};

}  // namespace quire
