#include "tensor/buffer.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"

namespace quire {
namespace {

constexpr std::uint64_t kHugePage = 2U << 20;

}  // namespace

Result<Buffer> Buffer::allocate(std::uint64_t bytes) {
  Buffer buffer;
  if (bytes == 0) return buffer;
  const auto padded = checked_add(bytes, 2 * kHugePage);
  void* base = MAP_FAILED;
  if (padded) {
    base = ::mmap(nullptr, *padded, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  if (base == MAP_FAILED) {
    return Status::resource_exhausted(
        fmt::format("cannot reserve {} bytes of memory: {}", bytes, strerror(errno)),
        "free memory, or lower --kv-cache-memory-bytes, --max-model-len or --max-num-seqs");
  }
  // Trim to a huge-page boundary, so that the kernel can back the buffer with 2 MiB pages.
  auto* const start = static_cast<std::byte*>(base);
  const std::uint64_t misaligned = reinterpret_cast<std::uintptr_t>(start) % kHugePage;
  const std::uint64_t head = misaligned == 0 ? 0 : kHugePage - misaligned;
  std::byte* const aligned = start + head;
  const std::uint64_t mapped = (bytes + 4095) / 4096 * 4096;
  if (head != 0) ::munmap(base, head);
  const std::uint64_t tail = *padded - head - mapped;
  ::munmap(aligned + mapped, tail);
  buffer.data_ = aligned;
  buffer.size_ = bytes;
  buffer.mapped_ = mapped;
  // Advice only: without huge pages the buffer works the same, more slowly.
  (void)::madvise(buffer.data_, mapped, MADV_HUGEPAGE);
  return buffer;
}

Buffer::Buffer(Buffer&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapped_(std::exchange(other.mapped_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  if (device_ != nullptr) {
    device_->release(data_, size_);
  } else {
    ::munmap(data_, mapped_);
  }
}

}  // namespace quire
