// A server in this process over an engine that makes up its tokens at a known speed: the real HTTP
// server, service, protocols, scheduler and output thread, and no model.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "apps/simulated_engine.h"
#include "serve/http/server.h"
#include "serve/service.h"

namespace quire::load {

struct SimulatedServerConfig {
  SimulatedEngineArgs engine;
  HttpServerConfig http;  // the port is chosen freely
  std::function<void(const StepRecord&)> stepped = nullptr;
};

class SimulatedServer {
 public:
  static Result<std::unique_ptr<SimulatedServer>> start(SimulatedServerConfig config);
  ~SimulatedServer();  // ends what runs

  Engine& engine() { return service_->model().engine(); }
  Service& service() { return *service_; }
  HttpServer& http() { return *http_; }
  std::uint16_t port() const { return http_->port(); }

 private:
  SimulatedServer() = default;

  std::unique_ptr<Service> service_;
  std::unique_ptr<HttpServer> http_;
  std::thread io_thread_;
};

}  // namespace quire::load
