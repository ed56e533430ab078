// A lock between processes: who fetches a file that others want, too.
#pragma once

#include <filesystem>
#include <functional>

#include "base/status.h"

namespace quire {

// Held while it lives; the system gives it up with the process. The lock is that of Hugging Face's
// tools, flock() on a file that stays.
class FileLock {
 public:
  // Waits for whoever has it, and calls `waiting` once if that is somebody. kCancelled, kIoError.
  static Result<FileLock> take(const std::filesystem::path& path,
                               const std::function<void()>& waiting,
                               const std::function<bool()>& cancelled);
  FileLock(FileLock&& other) noexcept;
  FileLock(const FileLock&) = delete;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

}  // namespace quire
