#include "base/exhaustion.h"

namespace quire {

Status out_of_memory() {
  return Status::unavailable("out of memory", "try again later, or allow more memory");
}

Status status_of(const std::system_error& error) {
  if (error.code() != std::errc::resource_unavailable_try_again) {
    return Status::io_error(error.what());
  }
  return Status::unavailable(error.what(),
                             "allow more threads (ulimit -u, the container's limit of pids, "
                             "systemd's TasksMax) or memory");
}

}  // namespace quire
