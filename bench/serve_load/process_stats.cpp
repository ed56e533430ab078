#include "serve_load/process_stats.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <unistd.h>

namespace quire::load {
namespace {

// User and system time of one thread, in clock ticks: fields 14 and 15, counted from 1; the name,
// field 2, is in parentheses and may hold anything.
void add_thread(const std::string& stat_path, std::map<std::string, double>& cpu_s) {
  std::ifstream file(stat_path);
  std::string line;
  std::getline(file, line);
  const std::size_t open = line.find('(');
  const std::size_t close = line.rfind(')');
  if (open == std::string::npos || close == std::string::npos) return;
  std::istringstream rest(line.substr(close + 1));
  std::string skipped;
  for (int field = 3; field < 14; ++field) rest >> skipped;
  double user = 0;
  double system = 0;
  rest >> user >> system;
  cpu_s[line.substr(open + 1, close - open - 1)] +=
      (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace

ProcessStats read_process_stats(const std::string& process) {
  namespace fs = std::filesystem;
  const std::string root = "/proc/" + process;
  ProcessStats stats;
  std::ifstream statm(root + "/statm");
  std::int64_t size = 0;
  std::int64_t resident = 0;
  statm >> size >> resident;
  stats.rss_bytes = resident * ::sysconf(_SC_PAGESIZE);
  std::error_code error;
  for (fs::directory_iterator at(root + "/fd", error), end; !error && at != end;
       at.increment(error)) {
    ++stats.num_descriptors;
  }
  for (fs::directory_iterator at(root + "/task", error), end; !error && at != end;
       at.increment(error)) {
    ++stats.num_threads;
    add_thread(at->path().string() + "/stat", stats.thread_cpu_s);
  }
  return stats;
}

}  // namespace quire::load
