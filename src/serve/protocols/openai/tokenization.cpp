#include "serve/protocols/openai/tokenization.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "serve/protocols/openai/chat_completions.h"
#include "serve/protocols/openai/token_report.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 9> kTokenizeFields = {"model",
                                                             "prompt",
                                                             "add_special_tokens",
                                                             "return_token_strs",
                                                             "messages",
                                                             "documents",
                                                             "chat_template_kwargs",
                                                             "add_generation_prompt",
                                                             "continue_final_message"};
constexpr std::array<UnsupportedField, 3> kUnsupportedTokenize = {
    {{"tools", says_nothing},
     {"chat_template", says_nothing},
     {"mm_processor_kwargs", says_nothing}}};
constexpr std::array<std::string_view, 2> kDetokenizeFields = {"model", "tokens"};

Result<std::vector<TokenId>> encode(const JsonReader& fields, const Engine& engine) {
  QUIRE_ASSIGN_OR_RETURN(const auto prompt, fields.find_string("prompt"));
  QUIRE_ASSIGN_OR_RETURN(const auto special, fields.find_bool("add_special_tokens"));
  if (prompt && fields.contains("messages")) {
    return Status::invalid_argument("prompt: give either it or messages");
  }
  if (prompt) {
    return engine.tokenizer().encode(
        *prompt, {.add_special_tokens = special.value_or(true), .parse_special = true});
  }
  if (!fields.contains("messages")) {
    return Status::invalid_argument("prompt: expected a string, found nothing");
  }
  QUIRE_ASSIGN_OR_RETURN(const Conversation conversation, read_conversation(fields));
  return engine.encode_chat(conversation, special.value_or(false));
}

Result<json::object> tokenize(const JsonReader& fields, const Engine& engine) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, encode(fields, engine));
  QUIRE_ASSIGN_OR_RETURN(const auto strings, fields.find_bool("return_token_strs"));
  json::object answer = {{"count", ids.size()},
                         {"max_model_len", engine.info().max_model_len},
                         {"tokens", json::array(ids.begin(), ids.end())},
                         {"token_strs", nullptr}};
  if (strings.value_or(false)) {
    json::array texts;
    for (const TokenId id : ids) texts.push_back(json::value(token_string(engine.tokenizer(), id)));
    answer["token_strs"] = std::move(texts);
  }
  return answer;
}

Result<json::object> detokenize(const JsonReader& fields, const Engine& engine) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, read_token_ids(fields, "tokens"));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (engine.tokenizer().contains(ids[i])) continue;
    return Status::invalid_argument(fmt::format("tokens[{}]: {} is not a token id in [0, {})", i,
                                                ids[i], engine.tokenizer().vocab_size()));
  }
  return json::object{{"prompt", engine.tokenizer().decode(ids, /*skip_special_tokens=*/false)}};
}

using Transform = Result<json::object> (*)(const JsonReader& fields, const Engine& engine);

// The second known field of `table` is what is transformed.
HttpHandler handler(Service& service, FieldTable table, Transform transform) {
  return [&service, table, transform](const std::shared_ptr<Exchange>& exchange) {
    const auto body =
        RequestBody::parse(exchange->request().body, table, service.config().strict_fields);
    if (const auto* error = std::get_if<ApiError>(&body)) return respond_error(*exchange, *error);
    const auto& request = std::get<RequestBody>(body);
    const auto model = read_model_name(request, service);
    if (const auto* error = std::get_if<ApiError>(&model)) return respond_error(*exchange, *error);
    const JsonReader fields = request.reader();
    const auto answer = transform(fields, service.engine());
    if (!answer.ok()) {
      const std::string_view field = fields.contains("messages") ? "messages" : table.known[1];
      return respond_error(*exchange, request_error(answer.status(), service, field));
    }
    HttpResponse response;
    response.body = json::serialize(*answer);
    if (!request.ignored_fields().empty()) {
      response.headers.push_back({"X-Ignored-Fields", request.ignored_fields()});
    }
    exchange->respond(std::move(response));
  };
}

}  // namespace

std::vector<Route> tokenization_routes(Service& service) {
  std::vector<Route> routes;
  routes.push_back(
      {.method = "POST",
       .pattern = "/tokenize",
       .handler = handler(service, {kTokenizeFields, kUnsupportedTokenize}, tokenize)});
  routes.push_back({.method = "POST",
                    .pattern = "/detokenize",
                    .handler = handler(service, {kDetokenizeFields, {}}, detokenize)});
  return routes;
}

}  // namespace quire
