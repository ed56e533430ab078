// How many CPUs this process may use.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

namespace quire {

// CPUs in the affinity mask of the calling thread, at least 1.
int affinity_cpu_count();

// The CPU quota of a process's cgroup and of all groups above it, rounded up to whole CPUs; nullopt
// where none is set. `mount` is where the hierarchies are mounted (/sys/fs/cgroup), `membership`
// the text of /proc/self/cgroup. Version 2: cpu.max; version 1: cpu.cfs_quota_us and
// cpu.cfs_period_us.
std::optional<int> cgroup_cpu_quota(const std::filesystem::path& mount,
                                    std::string_view membership);

}  // namespace quire
