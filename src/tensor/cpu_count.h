// Which CPUs this process may use, and how many cores they are.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace quire {

// The CPUs in the affinity mask of the calling thread, in order; never empty.
std::vector<int> affinity_cpus();

// How many physical cores those CPUs are: hyperthreads of one core count once. Where the system
// does not say which belong together, every CPU is a core. `devices` is /sys/devices/system/cpu.
int physical_core_count(std::span<const int> cpus, const std::filesystem::path& devices);

// CPUs that the calling thread may keep busy: those of its affinity mask, and no more than its
// cgroup's quota.
int granted_cpu_count();

// The CPU quota of a process's cgroup and of all groups above it, rounded up to whole CPUs; nullopt
// where none is set. `mount` is where the hierarchies are mounted (/sys/fs/cgroup), `membership`
// the text of /proc/self/cgroup. Version 2: cpu.max; version 1: cpu.cfs_quota_us and
// cpu.cfs_period_us.
std::optional<int> cgroup_cpu_quota(const std::filesystem::path& mount,
                                    std::string_view membership);

}  // namespace quire
