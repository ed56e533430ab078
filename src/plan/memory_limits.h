// How much memory this process may take: the machine's, or its cgroup's where that is less.
#pragma once

#include <cstdint>
#include <filesystem>

namespace quire {

struct MemoryLimits {
  std::uint64_t total = 0;      // bytes of the machine, or the smallest limit of its cgroups
  std::uint64_t available = 0;  // bytes of it that nobody uses now, as far as the system can say
  bool cgroup = false;          // the limit is a cgroup's
};

// Reads /proc/meminfo, and the memory controllers of the process's cgroup and those above it (v2
// and v1; page cache that can be dropped counts as available). `root` stands for "/", for tests.
MemoryLimits read_memory_limits(const std::filesystem::path& root = "/");

// Bytes of anonymous memory that this process has touched ("RssAnon" of /proc/self/status).
std::uint64_t resident_anonymous_bytes();

}  // namespace quire
