#include "serve/protocols/openai/batch/disk_reserve.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace quire {

DiskReserve::DiskReserve(std::filesystem::path path) : path_(std::move(path)) { refill(); }

bool DiskReserve::release(std::int64_t keep) const {
  struct stat found {};
  if (::stat(path_.c_str(), &found) != 0 || found.st_size - kShareBytes < keep) return false;
  return ::truncate(path_.c_str(), found.st_size - kShareBytes) == 0;
}

void DiskReserve::refill() const {
  const int descriptor = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) return;
  struct stat found {};
  const off_t before = ::fstat(descriptor, &found) == 0 ? found.st_size : 0;
  if (before < kBytes && ::posix_fallocate(descriptor, 0, kBytes) != 0) {
    (void)!::ftruncate(descriptor, before);  // what it may have allocated before it failed
  }
  ::close(descriptor);
}

}  // namespace quire
