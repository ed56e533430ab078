#include "serve_load/simulated_server.h"

#include <utility>

#include "base/exhaustion.h"
#include "base/thread.h"
#include "serve/operations.h"
#include "serve/protocols/openai/routes.h"

namespace quire::load {

Result<std::unique_ptr<SimulatedServer>> SimulatedServer::start(SimulatedServerConfig config) {
  std::unique_ptr<SimulatedServer> server(new SimulatedServer());
  auto meter = std::make_shared<StepWatch>();
  const auto stepped = [meter, told = std::move(config.stepped)](const StepRecord& step) {
    meter->record(step);
    if (told) told(step);
  };
  QUIRE_ASSIGN_OR_RETURN(auto engine, create_simulated_engine(config.engine, stepped));
  server->service_ = std::make_unique<Service>(
      std::move(engine), ServiceConfig{.served_model_names = {"simulated"}, .log_requests = false},
      meter);
  config.http.port = 0;
  QUIRE_ASSIGN_OR_RETURN(server->http_, HttpServer::listen(config.http));
  Service& service = *server->service_;
  HttpServer& http = *server->http_;
  Router router;
  router.add_all(operation_routes(service, "simulated", [&http] { return http.stats(); }));
  router.add_all(openai_routes(service));
  QUIRE_ASSIGN_OR_RETURN(server->io_thread_,
                         start_thread("quire-io", [&http, all = std::move(router)] {
                           until_memory([&] { http.run(all); });
                         }));
  return server;
}

SimulatedServer::~SimulatedServer() {
  if (http_) http_->stop();
  if (io_thread_.joinable()) io_thread_.join();
}

}  // namespace quire::load
