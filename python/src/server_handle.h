// A server in this process as Python holds it. Its I/O thread is its own and never sees the
// interpreter; every call gives up the GIL before it takes a lock or waits.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>

#include "engine_handle.h"

namespace quire::python {

class ServerHandle {
 public:
  // Listens; who connects waits for serve(). `settings`: the JSON of server_settings.h. Raises what
  // read_server_settings() and ModelServer::listen() give, and then nothing listens.
  static std::unique_ptr<ServerHandle> listen(const std::string& settings, bool with_engine);
  // Cuts requests off and waits, but in a process that a fork made and within a logits processor,
  // whose engine would wait for itself.
  ~ServerHandle();

  const std::string& address() const { return address_; }
  std::uint16_t port() const { return port_; }
  // What of the settings are the engine's: JSON.
  const std::string& engine_settings() const { return engine_settings_; }

  // Once: answers requests with this engine, which must outlive that. Raises kUnavailable where the
  // engine is closed or the system has no thread, and then it is shut down.
  void serve(EngineHandle& engine);

  // No request is taken any more; those in flight go on for `timeout_s`, by default
  // --shutdown-timeout, and are cut off then. Returns at once. Raises kUnavailable within a logits
  // processor.
  void shut_down(std::optional<double> timeout_s);
  // Whether it has ended, and let go of its engine; waits for that, up to `timeout_s`.
  bool wait(double timeout_s);

 private:
  class Running;
  ServerHandle(std::shared_ptr<Running> running, std::string engine_settings);

  const ::pid_t process_;
  std::string address_;
  std::uint16_t port_;
  std::string engine_settings_;
  std::shared_ptr<Running> running_;  // its thread holds it, too
};

}  // namespace quire::python
