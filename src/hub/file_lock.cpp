#include "hub/file_lock.h"

#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <sys/file.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"

namespace quire {

Result<FileLock> FileLock::take(const std::filesystem::path& path,
                                const std::function<void()>& waiting,
                                const std::function<bool()>& cancelled) {
  const auto refused = [&](const std::string& reason) {
    return Status::io_error(
        fmt::format("cannot lock {}: {}", printable(path.string(), 400), reason),
        "make room or allow writing there, or name another cache with HF_HOME");
  };
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) return refused(error.message());
  FileLock lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (lock.descriptor_ < 0) return refused(std::generic_category().message(errno));
  bool told = false;
  while (::flock(lock.descriptor_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return refused(std::generic_category().message(errno));
    }
    if (cancelled()) return Status(StatusCode::kCancelled, "interrupted");
    if (!std::exchange(told, true)) waiting();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return lock;
}

FileLock::FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace quire
