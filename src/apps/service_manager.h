// What `quire serve` tells the service manager that started it: that it is ready, that it stops,
// that it is alive. The protocol is that of sd_notify(3), datagrams to the socket that
// $NOTIFY_SOCKET names; it is spoken here, because all of libsystemd is much to depend on for three
// words. Where no service manager asks, nothing is sent.
#pragma once

#include <string>

#include "base/status.h"

namespace quire {

class ServiceManager {
 public:
  // `socket` is a path, or a name in Linux's abstract namespace after '@'; empty: nobody listens.
  // `watchdog`: whether signs of life are asked for.
  ServiceManager(std::string socket, bool watchdog);

  // From $NOTIFY_SOCKET, $WATCHDOG_USEC and $WATCHDOG_PID.
  static ServiceManager from_environment();

  // Requests are served from now on.
  Status ready() const { return send("READY=1"); }
  // No new ones are accepted.
  Status stopping() const { return send("STOPPING=1"); }
  // Where signs of life are asked for, one of them.
  Status alive() const { return watchdog_ ? send("WATCHDOG=1") : Status(); }

 private:
  Status send(const std::string& state) const;

  std::string socket_;
  bool watchdog_;
};

}  // namespace quire
