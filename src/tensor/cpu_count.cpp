#include "tensor/cpu_count.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <sched.h>
#include <set>
#include <sstream>
#include <string>

#include "tensor/thread_pool.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

std::optional<int> whole_cpus(std::int64_t quota, std::int64_t period) {
  if (quota <= 0 || period <= 0) return std::nullopt;
  const std::int64_t cpus = (quota - 1) / period + 1;
  return static_cast<int>(std::min<std::int64_t>(cpus, 1 << 20));
}

// cpu.max reads "max 100000" where there is no limit.
std::optional<int> quota_v2(const fs::path& group) {
  std::ifstream file(group / "cpu.max");
  std::int64_t quota = 0;
  std::int64_t period = 0;
  if (!(file >> quota >> period)) return std::nullopt;
  return whole_cpus(quota, period);
}

std::optional<int> quota_v1(const fs::path& group) {
  std::ifstream quota_file(group / "cpu.cfs_quota_us");
  std::ifstream period_file(group / "cpu.cfs_period_us");
  std::int64_t quota = 0;  // -1 where there is no limit
  std::int64_t period = 0;
  if (!(quota_file >> quota) || !(period_file >> period)) return std::nullopt;
  return whole_cpus(quota, period);
}

void lower(std::optional<int>& limit, std::optional<int> other) {
  if (other) limit = limit ? std::min(*limit, *other) : *other;
}

// The group and all above it: the tightest quota counts. Inside a container the group's own path
// may not be visible, only the mount point that stands for it.
template <typename Quota>
void lower_along(std::optional<int>& limit, const fs::path& root, std::string_view group,
                 Quota quota) {
  fs::path path(group);
  path = path.relative_path();
  while (!path.empty()) {
    lower(limit, quota(root / path));
    path = path.parent_path();
  }
  lower(limit, quota(root));
}

bool names_cpu(std::string_view controllers) {
  while (!controllers.empty()) {
    const std::size_t comma = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == "cpu") return true;
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return false;
}

int within_quota(int cpus) {
  std::ifstream file("/proc/self/cgroup");
  std::ostringstream membership;
  membership << file.rdbuf();
  return std::min(cpus, cgroup_cpu_quota("/sys/fs/cgroup", membership.str()).value_or(cpus));
}

}  // namespace

std::vector<int> affinity_cpus() {
  std::vector<int> cpus;
  // The kernel refuses a set that is smaller than its own: grow until it fits.
  for (int size = CPU_SETSIZE; size <= (1 << 20) && cpus.empty(); size *= 2) {
    cpu_set_t* set = CPU_ALLOC(size);
    if (set == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(size);
    if (sched_getaffinity(0, bytes, set) == 0) {
      for (int cpu = 0; cpu < size; ++cpu) {
        if (CPU_ISSET_S(cpu, bytes, set)) cpus.push_back(cpu);
      }
    }
    CPU_FREE(set);
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

int physical_core_count(std::span<const int> cpus, const fs::path& devices) {
  std::set<std::string> cores;  // by the list of their CPUs
  for (const int cpu : cpus) {
    const fs::path topology = devices / ("cpu" + std::to_string(cpu)) / "topology";
    std::string siblings;
    for (const char* name : {"core_cpus_list", "thread_siblings_list"}) {
      std::ifstream file(topology / name);
      if (std::getline(file, siblings) && !siblings.empty()) break;
    }
    cores.insert(siblings.empty() ? std::to_string(cpu) : siblings);
  }
  return static_cast<int>(cores.size());
}

std::optional<int> cgroup_cpu_quota(const fs::path& mount, std::string_view membership) {
  std::optional<int> limit;
  while (!membership.empty()) {  // lines "hierarchy:controllers:path"
    const std::size_t end = std::min(membership.find('\n'), membership.size());
    const std::string_view line = membership.substr(0, end);
    membership.remove_prefix(std::min(end + 1, membership.size()));
    const std::size_t first = line.find(':');
    if (first == std::string_view::npos) continue;
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view group = line.substr(second + 1);
    if (controllers.empty()) {
      lower_along(limit, mount, group, quota_v2);
    } else if (names_cpu(controllers)) {
      lower_along(limit, mount / "cpu", group, quota_v1);
      lower_along(limit, mount / std::string(controllers), group, quota_v1);
    }
  }
  return limit;
}

int granted_cpu_count() { return within_quota(static_cast<int>(affinity_cpus().size())); }

int default_num_threads() {
  return within_quota(physical_core_count(affinity_cpus(), "/sys/devices/system/cpu"));
}

}  // namespace quire
