#include "serve_load/simulated_server.h"

#include <pthread.h>
#include <utility>

#include <fmt/format.h>

namespace quire::load {
namespace {

// Completions as a stream with nothing beside: the least that a protocol does.
std::vector<Route> bare_routes(Service& service) {
  Route route;
  route.method = "POST";
  route.pattern = "/v1/completions";
  route.handler = [&service](std::shared_ptr<Exchange> exchange) {
    auto body = parse_json(exchange->request().body, "body");
    if (!body.ok()) return exchange->respond({.status = 400, .headers = {}, .body = "{}"});
    const JsonReader reader(body->get_object(), "body");
    GenerateRequest request;
    request.params = service.engine().default_sampling_params();
    request.prompt_token_ids = *read_token_ids(reader, "prompt");
    request.params.max_tokens = *reader.get_int("max_tokens");
    request.params.ignore_eos = true;
    exchange->start_stream({.content_type = "text/event-stream", .headers = {}, .body = {}});
    auto id = service.submit(
        exchange->request().request_id, std::move(request), [exchange](const RequestOutput& out) {
          json::object choice = {{"index", 0}, {"text", out.text}, {"logprobs", nullptr}};
          choice["finish_reason"] = nullptr;
          json::object chunk = {{"id", "cmpl-" + exchange->request().request_id},
                                {"object", "text_completion"},
                                {"created", 1234567890},
                                {"model", "model"},
                                {"choices", json::array{std::move(choice)}}};
          exchange->write("data: " + json::serialize(chunk) + "\n\n");
          if (!out.request_finished) return;
          exchange->write(fmt::format(
              "data: {{\"choices\":[],\"usage\":{{\"completion_tokens\":{}}}}}\n\ndata: [DONE]\n\n",
              out.num_output_tokens));
          exchange->finish();
        });
    if (!id.ok()) {
      exchange->write("data: {\"error\":{}}\n\n");
      return exchange->finish();
    }
    exchange->on_disconnect([&service, request_id = *id] { service.engine().abort(request_id); });
  };
  std::vector<Route> routes;
  routes.push_back(std::move(route));
  return routes;
}

}  // namespace

Result<std::unique_ptr<SimulatedServer>> SimulatedServer::start(SimulatedServerConfig config) {
  std::unique_ptr<SimulatedServer> server(new SimulatedServer());
  auto meter = std::make_shared<StepMeter>();
  const auto stepped = [meter, told = std::move(config.stepped)](const StepRecord& step) {
    meter->record(step);
    if (told) told(step);
  };
  QUIRE_ASSIGN_OR_RETURN(server->engine_, create_simulated_engine(config.engine, stepped));
  server->service_ = std::make_unique<Service>(
      *server->engine_, ServiceConfig{.served_model_names = {"simulated"}, .log_requests = false},
      meter);
  Router router;
  router.add_all(bare_routes(*server->service_));
  config.http.port = 0;
  QUIRE_ASSIGN_OR_RETURN(server->http_, HttpServer::listen(config.http));
  server->io_thread_ =
      std::thread([http = server->http_.get(), routes = std::move(router)] { http->run(routes); });
  ::pthread_setname_np(server->io_thread_.native_handle(), "quire-io");
  return server;
}

SimulatedServer::~SimulatedServer() {
  if (http_) http_->stop();
  if (io_thread_.joinable()) io_thread_.join();
  engine_.reset();  // its output thread calls the service
}

}  // namespace quire::load
