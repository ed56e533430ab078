#include "plan/memory_limits.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace quire {
namespace {

namespace fs = std::filesystem;

// The number in a one-line file; nullopt for "max", or no such file.
std::optional<std::uint64_t> read_number(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

// The number after a key in a file of "key value" lines, with or without a colon and a unit.
std::optional<std::uint64_t> read_field(const fs::path& path, std::string_view wanted) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string key;
    std::uint64_t value = 0;
    if (words >> key >> value && key == wanted) return value;
  }
  return std::nullopt;
}

// What distinguishes the two versions of the interface.
struct Controller {
  fs::path mount;  // below the root
  const char* limit;
  const char* usage;
  const char* reclaimable;  // key in memory.stat: page cache that is given back under pressure
};
const Controller kV2 = {"sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};
const Controller kV1 = {"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                        "total_inactive_file"};

// The process's group in a hierarchy, relative to its mount: lines of /proc/self/cgroup read
// "0::/path" (v2) and "4:memory:/path" (v1).
fs::path group_of_process(const fs::path& root, bool v2) {
  std::ifstream file(root / "proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool matches =
        v2 ? controllers == ",," : controllers.find(",memory,") != std::string::npos;
    if (matches) return fs::path(line.substr(second + 1)).relative_path();
  }
  return {};
}

// Narrows `limits` by one group.
void apply_group(const fs::path& folder, const Controller& controller, MemoryLimits& limits) {
  const auto limit = read_number(folder / controller.limit);
  if (!limit || *limit >= limits.total) return;
  limits.total = *limit;
  limits.cgroup = true;
  const std::uint64_t usage = read_number(folder / controller.usage).value_or(0);
  const std::uint64_t reclaimable =
      read_field(folder / "memory.stat", controller.reclaimable).value_or(0);
  const std::uint64_t used = usage - std::min(usage, reclaimable);
  limits.available = std::min(limits.available, *limit - std::min(*limit, used));
}

void apply_hierarchy(const fs::path& root, const Controller& controller, bool v2,
                     MemoryLimits& limits) {
  const fs::path mount = root / controller.mount;
  // Inside a container the mount shows the container's own group, whatever the process's path says.
  apply_group(mount, controller, limits);
  fs::path folder = mount;
  for (const fs::path& part : group_of_process(root, v2)) {
    folder /= part;
    apply_group(folder, controller, limits);
  }
}

// Of lines "Node 0 MemTotal:       16384 kB".
std::uint64_t node_bytes(const fs::path& folder) {
  std::ifstream file(folder / "meminfo");
  std::string word;
  while (file >> word) {
    std::uint64_t kib = 0;
    if (word == "MemTotal:" && file >> kib) return kib * 1024;
  }
  return 0;
}

std::vector<NumaNode> read_numa_nodes(const fs::path& root) {
  const fs::path parent = root / "sys/devices/system/node";
  std::vector<NumaNode> nodes;
  std::error_code error;
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    int id = 0;
    const char* const last = name.data() + name.size();
    if (!name.starts_with("node") || name.size() > 8) continue;
    if (std::from_chars(name.data() + 4, last, id).ptr != last || name.size() == 4) continue;
    NumaNode node{.id = id, .cpus = {}, .bytes = node_bytes(entry->path())};
    std::ifstream(entry->path() / "cpulist") >> node.cpus;
    nodes.push_back(std::move(node));
  }
  std::ranges::sort(nodes, {}, &NumaNode::id);
  return nodes;
}

}  // namespace

MemoryLimits read_memory_limits(const fs::path& root) {
  constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();
  const fs::path meminfo = root / "proc/meminfo";
  const auto bytes = [&](std::string_view key) {
    const auto kib = read_field(meminfo, key);
    return kib ? *kib * 1024 : kUnknown;
  };
  MemoryLimits limits = {.total = bytes("MemTotal:"), .available = bytes("MemAvailable:")};
  limits.numa_nodes = read_numa_nodes(root);
  apply_hierarchy(root, kV2, /*v2=*/true, limits);
  apply_hierarchy(root, kV1, /*v2=*/false, limits);
  return limits;
}

std::uint64_t resident_anonymous_bytes() {
  return read_field("/proc/self/status", "RssAnon:").value_or(0) * 1024;
}

}  // namespace quire
