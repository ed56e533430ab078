#include "serve/protocols/llamacpp/llamacpp_routes.h"

#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "serve/protocols/llamacpp/llamacpp_answer.h"
#include "serve/protocols/llamacpp/llamacpp_request.h"
#include "serve/protocols/openai/chat_messages.h"

namespace quire {
namespace {

// `to_completion`: the body of a completion request that the route's stands for.
HttpHandler completion_handler(Service& service, LlamaTranslation to_completion) {
  return [&service, to_completion](std::shared_ptr<Exchange> exchange) {
    auto job = parse_llama_request(exchange->request().body, service, to_completion,
                                   [client = exchange.get()] { return client->gone(); });
    if (const auto* error = std::get_if<ApiError>(&job)) return respond_error(*exchange, *error);
    answer_llama(std::move(exchange), std::get<GenerationJob>(std::move(job)));
  };
}

std::string token_or_nothing(const Tokenizer& tokenizer, std::optional<TokenId> id) {
  return id ? std::string(tokenizer.token_text(*id)) : std::string();
}

json::object properties(const ServedModel& served) {
  const Engine& engine = served.engine();
  const SamplingParams& params = engine.default_sampling_params();
  const auto ends = engine.tokenizer().eos_ids();
  const json::object defaults = {{"temperature", params.temperature},
                                 {"top_k", params.top_k},
                                 {"top_p", params.top_p},
                                 {"min_p", params.min_p},
                                 {"repeat_penalty", params.repetition_penalty},
                                 {"presence_penalty", params.presence_penalty},
                                 {"frequency_penalty", params.frequency_penalty},
                                 {"n_predict", -1}};
  return {
      {"default_generation_settings",
       {{"n_ctx", engine.info().max_model_len}, {"params", defaults}}},
      {"total_slots", engine.info().max_num_seqs},
      {"model_alias", served.name()},
      {"model_path", served.name()},  // what clients show; a path of this machine is told to none
      {"modalities", {{"vision", false}, {"audio", false}}},
      {"chat_template", engine.chat_template()},
      {"bos_token", token_or_nothing(engine.tokenizer(), engine.tokenizer().bos_id())},
      {"eos_token",
       ends.empty() ? std::string() : token_or_nothing(engine.tokenizer(), ends.front())},
      {"build_info", "quire"}};
}

// A request that runs gets a slot, in no order: the engine knows none.
json::array slots(const Engine& engine) {
  const std::int64_t running = engine.observe().num_running;
  json::array list;
  for (std::int64_t id = 0; id < engine.info().max_num_seqs; ++id) {
    list.push_back(json::object{{"id", id},
                                {"n_ctx", engine.info().max_model_len},
                                {"speculative", false},
                                {"is_processing", id < running}});
  }
  return list;
}

void apply_template(const Service& service, Exchange& exchange) {
  const auto body = RequestBody::parse(exchange.request().body, apply_template_fields(), service);
  if (const auto* error = std::get_if<ApiError>(&body)) return respond_error(exchange, *error);
  const ServedModel& served = service.model();
  const auto rendered = [&]() -> Result<std::string> {
    QUIRE_ASSIGN_OR_RETURN(
        const Conversation conversation,
        read_conversation(std::get<RequestBody>(body).reader(), served.engine()));
    return served.engine().render_chat(conversation);
  }();
  if (!rendered.ok()) {
    return respond_error(exchange, request_error(rendered.status(), served, "messages"));
  }
  exchange.respond({.body = json::serialize(json::object{{"prompt", *rendered}})});
}

}  // namespace

std::vector<Route> llamacpp_routes(Service& service) {
  std::vector<Route> routes;
  routes.push_back({.method = "POST",
                    .pattern = "/completion",
                    .handler = completion_handler(service, completion_of_llama),
                    .metered = true});
  routes.push_back({.method = "POST",
                    .pattern = "/infill",
                    .handler = completion_handler(service, completion_of_infill),
                    .metered = true});
  routes.push_back(
      {.method = "GET", .pattern = "/props", .handler = [&service](const auto& exchange) {
         exchange->respond({.body = json::serialize(properties(service.model()))});
       }});
  routes.push_back(
      {.method = "GET", .pattern = "/slots", .handler = [&service](const auto& exchange) {
         exchange->respond({.body = json::serialize(slots(service.model().engine()))});
       }});
  routes.push_back(
      {.method = "POST", .pattern = "/apply-template", .handler = [&service](const auto& exchange) {
         apply_template(service, *exchange);
       }});
  return routes;
}

}  // namespace quire
