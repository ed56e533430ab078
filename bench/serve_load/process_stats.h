// What /proc tells of a running process.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace quire::load {

struct ProcessStats {
  std::int64_t rss_bytes = 0;
  std::int64_t num_descriptors = 0;
  std::int64_t num_threads = 0;
  std::map<std::string, double> thread_cpu_s;  // summed over the threads of a name
};

// `process`: a number, or "self". Zeros for a process that is not there or not one's own.
ProcessStats read_process_stats(const std::string& process);

}  // namespace quire::load
