#include "serve/page/page_tokens.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "serve/protocols/openai/chat_messages.h"
#include "serve/protocols/openai/request_body.h"
#include "serve/protocols/openai/text_limits.h"
#include "text/utf8.h"

namespace quire {
namespace {

constexpr std::uint64_t kMaxBodyBytes = 1ULL << 20;
constexpr std::array<std::string_view, 7> kFields = {"text",
                                                     "parse_special",
                                                     "messages",
                                                     "documents",
                                                     "chat_template_kwargs",
                                                     "add_generation_prompt",
                                                     "continue_final_message"};

Result<std::vector<TokenId>> encode(const JsonReader& fields, const Engine& engine,
                                    ClientGone gone) {
  QUIRE_ASSIGN_OR_RETURN(const auto text, fields.find_string("text"));
  QUIRE_ASSIGN_OR_RETURN(const auto special, fields.find_bool("parse_special"));
  if (text && fields.contains("messages")) {
    return Status::invalid_argument("text: give either it or messages");
  }
  if (text) {
    return engine.tokenizer().encode(
        *text, {.add_special_tokens = true, .parse_special = special.value_or(false)},
        text_limits("text", std::move(gone)));
  }
  if (!fields.contains("messages")) {
    return Status::invalid_argument("text: expected a string, found nothing");
  }
  QUIRE_ASSIGN_OR_RETURN(const Conversation conversation, read_conversation(fields, engine));
  return engine.encode_chat(conversation, /*add_special_tokens=*/false,
                            text_limits("messages", std::move(gone)));
}

json::object describe(const Tokenizer& tokenizer, TokenId id, bool first) {
  json::object token = {{"id", id}};
  if (tokenizer.is_special(id)) {
    token["text"] = tokenizer.token_text(id);
    token["special"] = true;
    return token;
  }
  const std::string_view bytes =
      first ? tokenizer.first_token_bytes(id) : tokenizer.token_bytes(id);
  if (is_valid_utf8(bytes)) {
    token["text"] = bytes;
  } else {
    const std::vector<unsigned char> values(bytes.begin(), bytes.end());
    token["bytes"] = fmt::format("{:02x}", fmt::join(values, " "));
  }
  return token;
}

void respond_tokens(const Service& service, Exchange& exchange) {
  const auto body = RequestBody::parse(exchange.request().body,
                                       plain_fields("POST /page/tokens", kFields), /*strict=*/true);
  if (const auto* error = std::get_if<ApiError>(&body)) return respond_error(exchange, *error);
  const Engine& engine = service.model().engine();
  const JsonReader fields = std::get<RequestBody>(body).reader();
  const auto ids = encode(fields, engine, [&exchange] { return exchange.gone(); });
  if (!ids.ok()) {
    const std::string_view field = fields.contains("messages") ? "messages" : "text";
    return respond_error(exchange, request_error(ids.status(), service.model(), field));
  }
  HttpResponse response;
  response.body = fmt::format(R"({{"count":{},"max_model_len":{},"tokens":[)", ids->size(),
                              engine.info().max_model_len);
  for (std::size_t i = 0; i < ids->size(); ++i) {
    if (i > 0) response.body += ',';
    response.body += json::serialize(describe(engine.tokenizer(), (*ids)[i], i == 0));
  }
  response.body += "]}";
  exchange.respond(std::move(response));
}

}  // namespace

Route page_tokens_route(Service& service) {
  return {.method = "POST",
          .pattern = "/page/tokens",
          .handler = [&service](const auto& exchange) { respond_tokens(service, *exchange); },
          .max_body_bytes = kMaxBodyBytes};
}

}  // namespace quire
