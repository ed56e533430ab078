#include "apps/service_manager.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <sys/socket.h>
#include <sys/un.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

namespace quire {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Status failed(const std::string& state, const std::string& socket, int error) {
  return Status::io_error(fmt::format("cannot tell the service manager {} at {}: {}", state, socket,
                                      std::generic_category().message(error)));
}

}  // namespace

ServiceManager::ServiceManager(std::string socket, bool watchdog)
    : socket_(std::move(socket)), watchdog_(watchdog) {}

ServiceManager ServiceManager::from_environment() {
  const std::string watched = environment("WATCHDOG_PID");
  const bool watchdog = !environment("WATCHDOG_USEC").empty() &&
                        (watched.empty() || watched == std::to_string(getpid()));
  return {environment("NOTIFY_SOCKET"), watchdog};
}

Status ServiceManager::send(const std::string& state) const {
  if (socket_.empty()) return {};
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const bool known = socket_.front() == '/' || socket_.front() == '@';
  if (!known || socket_.size() >= sizeof(address.sun_path)) {
    return failed(state, socket_, EAFNOSUPPORT);
  }
  std::ranges::copy(socket_, std::begin(address.sun_path));
  if (socket_.front() == '@') address.sun_path[0] = '\0';
  const auto length = offsetof(sockaddr_un, sun_path) + socket_.size();

  const int handle = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (handle < 0) return failed(state, socket_, errno);
  const auto sent = ::sendto(handle, state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                             reinterpret_cast<const sockaddr*>(&address),  // as the call wants it
                             static_cast<socklen_t>(length));
  const int error = errno;
  ::close(handle);
  return sent == static_cast<ssize_t>(state.size()) ? Status() : failed(state, socket_, error);
}

}  // namespace quire
