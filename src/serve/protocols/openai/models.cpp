#include "serve/protocols/openai/models.h"

#include "serve/protocols/openai/request_body.h"

namespace quire {
namespace {

json::object model_object(const std::string& name, const ServedModel& served) {
  return {{"id", name},
          {"object", "model"},
          {"created", served.config().created},
          {"owned_by", "quire"},
          {"root", served.engine().info().model_name},
          {"parent", nullptr},
          {"max_model_len", served.engine().info().max_model_len}};
}

void list_models(const ServedModel& served, Exchange& exchange) {
  json::array models;
  for (const std::string& name : served.config().served_model_names) {
    models.push_back(model_object(name, served));
  }
  exchange.respond(
      {.body = json::serialize(json::object{{"object", "list"}, {"data", std::move(models)}})});
}

void show_model(const Service& service, Exchange& exchange) {
  std::string name(exchange.request().path_param("model"));
  const ServedModel* served = service.find(name);
  if (served == nullptr) {  // a path on this machine, whose first slash follows that of the route
    name.insert(0, 1, '/');
    served = service.find(name);
  }
  if (served == nullptr) {
    ApiError error;
    error.status = 404;
    error.type = "not_found_error";
    error.param = "model";
    error.code = "model_not_found";
    error.message = "there is no such model; GET /v1/models lists what there is";
    return respond_error(exchange, error);
  }
  exchange.respond({.body = json::serialize(model_object(name, *served))});
}

}  // namespace

std::vector<Route> model_routes(Service& service) {
  std::vector<Route> routes;
  routes.push_back(
      {.method = "GET",
       .pattern = "/v1/models",
       .handler = [&service](const auto& exchange) { list_models(service.model(), *exchange); },
       .inline_handler = true});
  routes.push_back({.method = "GET",
                    .pattern = "/v1/models/{model...}",
                    .handler = [&service](const auto& exchange) { show_model(service, *exchange); },
                    .inline_handler = true});
  return routes;
}

}  // namespace quire
