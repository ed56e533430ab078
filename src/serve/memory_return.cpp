#include "serve/memory_return.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <malloc.h>
#include <unistd.h>

namespace quire {
namespace {

constexpr int kMappedBlockBytes = 4 << 20;
constexpr int kKeptTopBytes = 8 << 20;
constexpr std::int64_t kWorthwhileBytes = std::int64_t{32} << 20;

// The program's memory that is no file's. Nothing where the system does not say.
std::optional<std::int64_t> resident_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return std::nullopt;
  long long size = 0;
  long long resident = 0;
  long long of_files = 0;
  const int found = std::fscanf(file, "%lld %lld %lld", &size, &resident, &of_files);
  std::fclose(file);
  if (found != 3) return std::nullopt;
  return (resident - of_files) * ::sysconf(_SC_PAGESIZE);
}

// Resident beyond what the allocator has handed out, up to a constant. What is free in the
// allocator says less: it counts what has been given back, too, and goes down where the heap gets
// shorter.
std::optional<std::int64_t> idle_bytes() {
  const auto resident = resident_bytes();
  if (!resident) return std::nullopt;
  const struct mallinfo2 info = ::mallinfo2();
  return *resident - static_cast<std::int64_t>(info.uordblks + info.hblkhd);
}

}  // namespace

// Said explicitly, glibc does not raise the first to 32 MiB by itself.
void return_large_blocks() {
  ::mallopt(M_MMAP_THRESHOLD, kMappedBlockBytes);
  ::mallopt(M_TRIM_THRESHOLD, kKeptTopBytes);
}

// Other threads go on freeing meanwhile, so what is left counts as needed only where giving back
// has changed next to nothing.
void MemoryReturn::look() {
  const auto idle = idle_bytes();
  if (!idle) return;
  least_idle_ = std::min(least_idle_.value_or(*idle), *idle);
  if (*idle < *least_idle_ + kWorthwhileBytes) return;
  ::malloc_trim(0);
  const auto left = idle_bytes();
  if (left && std::abs(*idle - *left) < kWorthwhileBytes / 8) least_idle_ = left;
}

}  // namespace quire
