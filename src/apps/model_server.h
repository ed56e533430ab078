// The server of one model, whoever runs it: the program (serve.cpp) or a process that has an engine
// (python/).
//
//   QUIRE_ASSIGN_OR_RETURN(const auto server, ModelServer::listen(flags));
//   QUIRE_RETURN_IF_ERROR(server->serve({.engine = std::move(engine), .steps = steps}));
//   server->run();  // until another thread calls shut_down()
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/serve_flags.h"
#include "base/status.h"
#include "engine/api.h"
#include "serve/models/step_watch.h"

namespace quire {

// An engine, and what of it only its maker knows.
struct EngineToServe {
  std::shared_ptr<Engine> engine;    // may have other users
  std::shared_ptr<StepWatch> steps;  // is told of its steps; serves one server at a time
  std::int64_t max_logprobs = 20;    // EngineArgs'
  // What requests may call it, besides its own name, where no flag names it.
  std::vector<std::string> other_names = {};
};

class ModelServer {
 public:
  // Binds and listens, and opens what else may be refused: where traces go, the Batch API's
  // database. Who connects waits for run(). `flags` are complete (complete_server_flags()). Errors
  // as HttpServer::listen, and kInvalidArgument or kConfig for other settings.
  static Result<std::unique_ptr<ModelServer>> listen(const ServeFlags& flags);
  // After run() has returned, if it was called. Requests that still run are aborted; the engine is
  // let go of, and goes on where it has other users.
  ~ModelServer();
  ModelServer(const ModelServer&) = delete;
  ModelServer& operator=(const ModelServer&) = delete;

  // "http://127.0.0.1:8000", "unix:/path"; and 0 there.
  const std::string& address() const;
  std::uint16_t port() const;

  // Once, before what follows: what is behind the door. kUnavailable where the system has no thread
  // for it.
  Status serve(EngineToServe engine);
  // Calls `task` on the I/O thread, every `interval`. Before run().
  void every(std::chrono::milliseconds interval, std::function<void()> task);
  // Whether the engine lives (ServedModel::check_heartbeat).
  Status check_heartbeat();

  // Answers requests until it is shut down and those in flight are done. The caller's thread
  // becomes the I/O thread.
  void run();
  // Any thread, once serve() has returned. No more requests are accepted; those in flight go on for
  // `timeout_s`, by default --shutdown-timeout, and are cut off then. Again: only to be faster.
  void shut_down(std::optional<double> timeout_s = {});

 private:
  class Parts;
  explicit ModelServer(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace quire
