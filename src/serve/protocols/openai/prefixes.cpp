#include "serve/protocols/openai/prefixes.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "serve/generation/generation.h"
#include "serve/protocols/openai/chat_messages.h"
#include "serve/protocols/openai/request_body.h"
#include "serve/protocols/openai/token_report.h"
#include "serve/protocols/openai/tool_fields.h"
#include "serve/protocols/queue_fields.h"
#include "serve/requests/request_origin.h"

namespace quire {
namespace {

constexpr std::int64_t kDefaultTtlSeconds = 3600;

const FieldTable& prefix_fields() {
  static constexpr std::array<std::string_view, 10> kNames = {"name",
                                                              "messages",
                                                              "prompt",
                                                              "model",
                                                              "tools",
                                                              "documents",
                                                              "cache_salt",
                                                              "ttl_seconds",
                                                              "chat_template_kwargs",
                                                              "add_special_tokens"};
  static const FieldTable kTable = plain_fields("POST /v1/prefixes", kNames);
  return kTable;
}

// As a chat completion renders them, up to where the answer would begin.
Result<std::vector<TokenId>> encode_messages(const JsonReader& fields, const ServedModel& served,
                                             bool special, ClientGone gone) {
  const Engine& engine = served.engine();
  QUIRE_ASSIGN_OR_RETURN(const ToolFields tools,
                         read_tools(fields, ToolForm::kChat, engine, served.dialect()));
  QUIRE_ASSIGN_OR_RETURN(Conversation conversation, read_conversation(fields, engine));
  if (!tools.tools.empty()) conversation.tools = tools.tools;
  conversation.add_generation_prompt = false;
  return engine.encode_chat(conversation, special,
                            prompt_limits(engine, /*room=*/1, "messages", std::move(gone)));
}

Result<std::vector<TokenId>> encode_prompt(const JsonReader& fields, const json::value& prompt,
                                           const Engine& engine, bool special, ClientGone gone) {
  if (is_token_list(prompt)) return read_token_ids(fields, "prompt");
  if (!prompt.is_string()) {
    return Status::invalid_argument("prompt: expected a string or a list of token ids");
  }
  return engine.tokenizer().encode(std::string_view(prompt.get_string()),
                                   {.add_special_tokens = special, .parse_special = true},
                                   prompt_limits(engine, /*room=*/1, "prompt", std::move(gone)));
}

Result<std::vector<TokenId>> read_prefix(const JsonReader& fields, const ServedModel& served,
                                         ClientGone gone) {
  QUIRE_ASSIGN_OR_RETURN(const auto special, fields.find_bool("add_special_tokens"));
  const json::value* prompt = fields.find("prompt");
  if ((prompt != nullptr) == fields.contains("messages")) {
    return Status::invalid_argument("messages: give either them or a prompt");
  }
  if (prompt == nullptr) {
    return encode_messages(fields, served, special.value_or(false), std::move(gone));
  }
  return encode_prompt(fields, *prompt, served.engine(), special.value_or(true), std::move(gone));
}

Result<GenerateRequest> read_request(const JsonReader& fields, const std::string& caller,
                                     const ServedModel& served, ClientGone gone) {
  GenerateRequest request;
  QUIRE_ASSIGN_OR_RETURN(const auto name, fields.find_string("name"));
  if (!name) return Status::invalid_argument("name: expected a string, found nothing");
  QUIRE_ASSIGN_OR_RETURN(const auto ttl, fields.find_int("ttl_seconds"));
  constexpr std::int64_t kSecondsOfYear = 31'536'000;  // far too many, and no overflow
  request.pin = {.owner = caller,
                 .name = *name,
                 .ttl = std::chrono::seconds(std::clamp<std::int64_t>(
                     ttl.value_or(kDefaultTtlSeconds), 0, kSecondsOfYear))};
  request.params.max_tokens = 1;
  QUIRE_ASSIGN_OR_RETURN(request.cache_salt, read_cache_salt(fields));
  if (served.config().prefix_cache_scope == PrefixCacheScope::kKey) request.cache_owner = caller;
  QUIRE_ASSIGN_OR_RETURN(request.prompt_token_ids, read_prefix(fields, served, std::move(gone)));
  QUIRE_RETURN_IF_ERROR(served.engine().check(request));
  return request;
}

json::object prefix_json(const PinState& pin, const Engine& engine) {
  using namespace std::chrono;
  const double expires = duration<double>(system_clock::now().time_since_epoch()).count() +
                         to_seconds(pin.expires_at - engine.now());
  return {
      {"object", "prefix"},       {"name", pin.name},
      {"tokens", pin.num_tokens}, {"blocks", pin.num_blocks},
      {"hits", pin.num_hits},     {"expires_at", static_cast<std::int64_t>(std::llround(expires))}};
}

// Tells of what is pinned by this name now.
void answer_with_pin(const std::shared_ptr<Exchange>& exchange, const PrefixJob& job) {
  auto look = [exchange, job](const std::vector<PinState>& pins) {
    const auto found = std::ranges::find(pins, job.request.pin->name, &PinState::name);
    if (found == pins.end()) {
      const Status gone = Status::unavailable(
          "the prefix was computed, and its blocks are not in the cache any more", "try again");
      return respond_error(*exchange, request_error(gone, *job.served, ""));
    }
    json::object body = prefix_json(*found, job.served->engine());
    body["model"] = job.model;
    HttpResponse response{.body = json::serialize(body)};
    if (!job.ignored_fields.empty()) {
      response.headers.push_back({"X-Ignored-Fields", job.ignored_fields});
    }
    exchange->respond(std::move(response));
  };
  job.served->engine().list_pins(job.request.pin->owner, std::move(look));
}

class PrefixAnswer final : public GenerationAnswer {
 public:
  PrefixAnswer(std::shared_ptr<Exchange> exchange, PrefixJob job)
      : exchange_(std::move(exchange)), job_(std::move(job)) {}

  void refused(const Status& error) override {
    respond_error(*exchange_, request_error(error, *job_.served, "prompt"));
  }
  void piece(std::size_t /*prompt*/, const RequestOutput& /*output*/, bool last) override {
    if (last) answer_with_pin(exchange_, job_);
  }
  void failed(const Status& error) override { refused(error); }

 private:
  std::shared_ptr<Exchange> exchange_;
  const PrefixJob job_;
};

void pin(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& request = exchange->request();
  auto parsed = parse_prefix_request(request.body, request.caller, service,
                                     [client = exchange.get()] { return client->gone(); });
  if (const auto* error = std::get_if<ApiError>(&parsed)) return respond_error(*exchange, *error);
  auto& job = std::get<PrefixJob>(parsed);
  ServedModel& served = *job.served;
  if (served.engine().renew_pin(job.request)) return answer_with_pin(exchange, job);
  const RequestOrigin origin =
      origin_of(*exchange, "prefix-" + request.request_id, job.model, /*stream=*/false);
  std::vector<GenerateRequest> prompts = {job.request};
  generate(served, exchange, origin, std::move(prompts),
           std::make_shared<PrefixAnswer>(exchange, std::move(job)));
}

void list(Service& service, const std::shared_ptr<Exchange>& exchange) {
  ServedModel& served = service.model();
  auto look = [exchange, &served](const std::vector<PinState>& pins) {
    json::array data;
    for (const PinState& each : pins) data.push_back(prefix_json(each, served.engine()));
    const EngineInfo& info = served.engine().info();
    exchange->respond(
        {.body = json::serialize(json::object{{"object", "list"},
                                              {"data", std::move(data)},
                                              {"max_pinned_blocks", info.max_pinned_blocks},
                                              {"block_size", info.block_size}})});
  };
  served.engine().list_pins(exchange->request().caller, std::move(look));
}

void unpin(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const std::string name(exchange->request().path_param("name"));
  ServedModel& served = service.model();
  const Status status = served.engine().unpin(exchange->request().caller, name);
  if (!status.ok()) return respond_error(*exchange, request_error(status, served, "name"));
  exchange->respond({.body = json::serialize(
                         json::object{{"object", "prefix"}, {"name", name}, {"deleted", true}})});
}

}  // namespace

std::variant<PrefixJob, ApiError> parse_prefix_request(std::string_view body,
                                                       const std::string& caller,
                                                       const Service& service, ClientGone gone) {
  auto parsed = RequestBody::parse(body, prefix_fields(), service);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  const auto& request = std::get<RequestBody>(parsed);
  auto named = read_model(request, service);
  if (auto* error = std::get_if<ApiError>(&named)) return std::move(*error);
  auto& model = std::get<RequestedModel>(named);
  const JsonReader fields = request.reader();
  if (model.served->engine().info().max_pinned_blocks == 0) {
    return request_error(
        Status::invalid_argument("no part of the KV cache is there for pinned prefixes",
                                 "start the server with --max-pinned-share, such as 0.25, and a "
                                 "--max-model-len that leaves room for it"),
        *model.served, "name");
  }
  auto read = read_request(fields, caller, *model.served, std::move(gone));
  if (!read.ok()) {
    return request_error(read.status(), *model.served,
                         fields.contains("messages") ? "messages" : "prompt");
  }
  return PrefixJob{.request = *std::move(read),
                   .model = std::move(model.name),
                   .served = model.served,
                   .ignored_fields = request.ignored_fields()};
}

std::vector<Route> prefix_routes(Service& service) {
  const auto with = [&service](void (*handle)(Service&, const std::shared_ptr<Exchange>&)) {
    return [&service, handle](const std::shared_ptr<Exchange>& exchange) {
      handle(service, exchange);
    };
  };
  std::vector<Route> routes;
  routes.push_back(
      {.method = "POST", .pattern = "/v1/prefixes", .handler = with(pin), .metered = true});
  routes.push_back({.method = "GET", .pattern = "/v1/prefixes", .handler = with(list)});
  routes.push_back({.method = "DELETE", .pattern = "/v1/prefixes/{name}", .handler = with(unpin)});
  return routes;
}

}  // namespace quire
