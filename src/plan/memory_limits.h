// How much memory this process may use: the machine's, or its cgroup's where that is less; or a
// GPU's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace quire {

// Memory and the CPUs that are near to it.
struct NumaNode {
  int id = 0;
  std::string cpus;         // as the system writes them: "0-3,8-11"; empty where it has none
  std::uint64_t bytes = 0;  // of memory
};

struct MemoryLimits {
  std::uint64_t total = 0;      // bytes of the machine, or the smallest limit of its cgroups
  std::uint64_t available = 0;  // bytes of it that nobody uses now, as far as the system can say
  bool cgroup = false;          // the limit is a cgroup's
  std::string gpu = {};         // whose memory it is; empty: the machine's
  std::vector<NumaNode> numa_nodes = {};  // in order of id; empty where the system names none
};

// Reads /proc/meminfo, and the memory controllers of the process's cgroup and those above it (v2
// and v1; page cache that can be dropped counts as available), and the NUMA nodes. `root` stands
// for "/", for tests.
MemoryLimits read_memory_limits(const std::filesystem::path& root = "/");

// Bytes of anonymous memory that this process has touched ("RssAnon" of /proc/self/status).
std::uint64_t resident_anonymous_bytes();

}  // namespace quire
