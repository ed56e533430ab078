#include "serve/memory_return.h"

#include <algorithm>
#include <cstdio>
#include <malloc.h>
#include <unistd.h>

namespace quire {
namespace {

constexpr int kMappedBlockBytes = 4 << 20;
constexpr int kKeptTopBytes = 8 << 20;
constexpr std::uint64_t kWorthwhileBytes = std::uint64_t{32} << 20;

std::uint64_t free_bytes() { return ::mallinfo2().fordblks; }

// 0 where the system does not say.
std::uint64_t resident_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  unsigned long long size = 0;
  unsigned long long resident = 0;
  const int found = std::fscanf(file, "%llu %llu", &size, &resident);
  std::fclose(file);
  return found == 2 ? resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace

// Said explicitly, glibc does not raise the first to 32 MiB by itself.
void return_large_blocks() {
  ::mallopt(M_MMAP_THRESHOLD, kMappedBlockBytes);
  ::mallopt(M_TRIM_THRESHOLD, kKeptTopBytes);
}

// What has been given back still counts as free, but is not resident: so either number may say that
// there is something to give.
void MemoryReturn::look() {
  const std::uint64_t free = free_bytes();
  const std::uint64_t resident = resident_bytes();
  const bool first = least_resident_ == 0;
  const bool grown = free > least_free_ + kWorthwhileBytes ||
                     (!first && resident > least_resident_ + kWorthwhileBytes);
  least_free_ = first ? free : std::min(least_free_, free);
  least_resident_ = first ? resident : std::min(least_resident_, resident);
  if (!grown || free < kWorthwhileBytes) return;
  ::malloc_trim(0);
  least_free_ = free_bytes();
  least_resident_ = resident_bytes();
}

}  // namespace quire
