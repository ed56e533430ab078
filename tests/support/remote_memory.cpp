#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

#include <fmt/format.h>

#include "support/remote_device.h"

namespace quire::test {
namespace {

constexpr std::uint64_t kReserved = std::uint64_t{16} << 30;

}  // namespace

Result<std::unique_ptr<RemoteMemory>> RemoteMemory::create() {
  const int fd = ::memfd_create("quire-remote-device", MFD_CLOEXEC);
  if (fd < 0) return Status::resource_exhausted(fmt::format("memfd_create: {}", strerror(errno)));
  void* far = MAP_FAILED;
  void* near = MAP_FAILED;
  if (::ftruncate(fd, static_cast<off_t>(kReserved)) == 0) {
    far = ::mmap(nullptr, kReserved, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    near = ::mmap(nullptr, kReserved, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  }
  const int error = errno;
  ::close(fd);
  if (far == MAP_FAILED || near == MAP_FAILED) {
    if (far != MAP_FAILED) ::munmap(far, kReserved);
    return Status::resource_exhausted(fmt::format("cannot map memory twice: {}", strerror(error)));
  }
  return std::unique_ptr<RemoteMemory>(
      new RemoteMemory(static_cast<std::byte*>(far), static_cast<std::byte*>(near)));
}

RemoteMemory::~RemoteMemory() {
  ::munmap(far_, kReserved);
  ::munmap(near_, kReserved);
}

std::byte* RemoteMemory::take(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t begin = used_;
  // A page between two, so that running over an end meets zeros and not another's numbers.
  const std::uint64_t end = begin + (bytes + 4095) / 4096 * 4096 + 4096;
  if (bytes > kReserved || end > kReserved) return nullptr;
  used_ = end;
  return far_ + begin;
}

void RemoteMemory::give_back(std::byte* far, std::uint64_t bytes) {
  (void)::madvise(near(far), (bytes + 4095) / 4096 * 4096, MADV_REMOVE);
}

void RemoteMemory::check(std::uintptr_t address) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(far_);
  if (address >= begin && address < begin + kReserved) return;
  std::fprintf(stderr, "remote device: %#llx is no address of its memory\n",
               static_cast<unsigned long long>(address));
  std::abort();
}

}  // namespace quire::test
