#include "serve/protocols/openai/tokenization.h"

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "serve/protocols/openai/answer_size.h"
#include "serve/protocols/openai/chat_messages.h"
#include "serve/protocols/openai/text_limits.h"
#include "serve/protocols/openai/token_report.h"

namespace quire {
namespace {

Result<std::vector<TokenId>> encode(const JsonReader& fields, const Engine& engine,
                                    ClientGone gone) {
  QUIRE_ASSIGN_OR_RETURN(const auto prompt, fields.find_string("prompt"));
  QUIRE_ASSIGN_OR_RETURN(const auto special, fields.find_bool("add_special_tokens"));
  if (prompt && fields.contains("messages")) {
    return Status::invalid_argument("prompt: give either it or messages");
  }
  if (prompt) {
    return engine.tokenizer().encode(
        *prompt, {.add_special_tokens = special.value_or(true), .parse_special = true},
        text_limits("prompt", std::move(gone)));
  }
  if (!fields.contains("messages")) {
    return Status::invalid_argument("prompt: expected a string, found nothing");
  }
  QUIRE_ASSIGN_OR_RETURN(const Conversation conversation, read_conversation(fields, engine));
  return engine.encode_chat(conversation, special.value_or(false),
                            text_limits("messages", std::move(gone)));
}

// As JSON text, without the quotes.
std::uint64_t text_bytes(const Tokenizer& tokenizer, std::span<const TokenId> ids) {
  std::uint64_t bytes = 0;
  for (const TokenId id : ids) bytes += json_text_bytes(tokenizer.token_bytes(id));
  return bytes;
}

Result<std::string> tokenize(const JsonReader& fields, const ServedModel& served, ClientGone gone) {
  const Engine& engine = served.engine();
  QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, encode(fields, engine, std::move(gone)));
  QUIRE_ASSIGN_OR_RETURN(const auto strings, fields.find_bool("return_token_strs"));
  std::uint64_t most = ids.size() * served.token_widths().id();
  if (strings.value_or(false)) most += text_bytes(engine.tokenizer(), ids) + 3 * ids.size();
  QUIRE_RETURN_IF_ERROR(
      check_answer_bytes(most, fmt::format("prompt: {} tokens", ids.size()), served));
  std::string answer = fmt::format(R"({{"count":{},"max_model_len":{},"tokens":[{}],"token_strs":)",
                                   ids.size(), engine.info().max_model_len, fmt::join(ids, ","));
  if (!strings.value_or(false)) return answer + "null}";
  char separator = '[';
  for (const TokenId id : ids) {
    answer += separator;
    answer += json::serialize(json::string_view(token_string(engine.tokenizer(), id)));
    separator = ',';
  }
  return answer + (ids.empty() ? "[]}" : "]}");
}

Result<std::string> detokenize(const JsonReader& fields, const ServedModel& served,
                               ClientGone /*gone*/) {
  const Engine& engine = served.engine();
  QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, read_token_ids(fields, "tokens"));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (engine.tokenizer().contains(ids[i])) continue;
    return Status::invalid_argument(fmt::format("tokens[{}]: {} is not a token id in [0, {})", i,
                                                ids[i], engine.tokenizer().vocab_size()));
  }
  QUIRE_RETURN_IF_ERROR(check_answer_bytes(text_bytes(engine.tokenizer(), ids),
                                           fmt::format("tokens: {} tokens", ids.size()), served));
  const std::string text = engine.tokenizer().decode(ids, /*skip_special_tokens=*/false);
  return fmt::format(R"({{"prompt":{}}})", json::serialize(json::string_view(text)));
}

json::value token_or_null(const Tokenizer& tokenizer, std::optional<TokenId> id) {
  return id ? json::value(tokenizer.token_text(*id)) : json::value();
}

// What a tokenizer_config.json says, as clients that render templates themselves read it.
json::object tokenizer_info(const Engine& engine) {
  const Tokenizer& tokenizer = engine.tokenizer();
  const auto ends = tokenizer.eos_ids();
  const std::optional<TokenId> end = ends.empty() ? std::nullopt : std::optional(ends.front());
  json::array special;
  for (std::size_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const auto token = static_cast<TokenId>(id);
    if (tokenizer.is_special(token)) special.push_back(json::string(tokenizer.token_text(token)));
  }
  const std::string_view chat_template = engine.chat_template();
  return {{"bos_token", token_or_null(tokenizer, tokenizer.bos_id())},
          {"eos_token", token_or_null(tokenizer, end)},
          {"pad_token", nullptr},
          {"add_bos_token", tokenizer.adds_bos()},
          {"chat_template", chat_template.empty() ? json::value() : json::value(chat_template)},
          {"all_special_tokens", std::move(special)},
          {"vocab_size", tokenizer.vocab_size()},
          {"model_max_length", engine.info().max_model_len}};
}

// To the JSON text of the answer.
using Transform = Result<std::string> (*)(const JsonReader& fields, const ServedModel& served,
                                          ClientGone gone);

// The first field of `table` is what is transformed.
HttpHandler handler(Service& service, const FieldTable& table, Transform transform) {
  return [&service, &table, transform](const std::shared_ptr<Exchange>& exchange) {
    const auto body = RequestBody::parse(exchange->request().body, table, service);
    if (const auto* error = std::get_if<ApiError>(&body)) return respond_error(*exchange, *error);
    const auto& request = std::get<RequestBody>(body);
    const auto model = read_model(request, service);
    if (const auto* error = std::get_if<ApiError>(&model)) return respond_error(*exchange, *error);
    const ServedModel& served = *std::get<RequestedModel>(model).served;
    const JsonReader fields = request.reader();
    auto answer = transform(fields, served, [client = exchange.get()] { return client->gone(); });
    if (!answer.ok()) {
      const std::string_view field =
          fields.contains("messages") ? "messages" : table.fields.front().name;
      return respond_error(*exchange, request_error(answer.status(), served, field));
    }
    HttpResponse response;
    response.body = std::move(answer).value();
    if (!request.ignored_fields().empty()) {
      response.headers.push_back({"X-Ignored-Fields", request.ignored_fields()});
    }
    exchange->respond(std::move(response));
  };
}

}  // namespace

std::vector<Route> tokenization_routes(Service& service) {
  std::vector<Route> routes;
  routes.push_back({.method = "POST",
                    .pattern = "/tokenize",
                    .handler = handler(service, tokenize_fields(), tokenize)});
  routes.push_back({.method = "POST",
                    .pattern = "/detokenize",
                    .handler = handler(service, detokenize_fields(), detokenize)});
  routes.push_back({.method = "GET",
                    .pattern = "/tokenizer_info",
                    .handler = [&service](const std::shared_ptr<Exchange>& exchange) {
                      exchange->respond(
                          {.body = json::serialize(tokenizer_info(service.model().engine()))});
                    }});
  return routes;
}

}  // namespace quire
