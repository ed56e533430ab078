#include "apps/bench_serve/server_probe.h"

#include <algorithm>

#include <fmt/format.h>

#include "apps/bench_serve/exchange.h"

namespace quire::bench {
namespace {

constexpr double kProbeSeconds = 30;

}  // namespace

Result<std::string> find_model(ServerAddress& address, const std::string& api_key,
                               const std::string& named) {
  constexpr std::string_view kRemedy = "check --base-url and --api-key, or name the --model";
  QUIRE_ASSIGN_OR_RETURN(const Answer answer,
                         fetch(address, "/v1/models", api_key, "", kProbeSeconds));
  if (!named.empty()) return named;
  const std::string where = address.url().text() + " /v1/models";
  if (answer.status != 200) {
    return Status::unavailable(
        fmt::format("{}: HTTP {}: {}", where, answer.status, message_of(answer.body)),
        std::string(kRemedy));
  }
  const auto parsed = parse_json(answer.body, where);
  if (parsed.ok() && parsed->is_object()) {
    const json::value* data = parsed->get_object().if_contains("data");
    if (data != nullptr && data->is_array() && !data->get_array().empty() &&
        data->get_array()[0].is_object()) {
      const JsonReader model(data->get_array()[0].get_object(), where);
      if (auto id = model.get_string("id"); id.ok()) return id;
    }
  }
  return Status::not_found(fmt::format("{}: it lists no model", where), std::string(kRemedy));
}

Result<TokenIds> fetch_token_pool(ServerAddress& address, const std::string& api_key,
                                  const std::string& model) {
  const json::object as_vllm = {
      {"model", model}, {"prompt", PromptSource::words()}, {"add_special_tokens", false}};
  const json::object as_llama = {{"content", PromptSource::words()}, {"add_special", false}};
  for (const json::object& body : {as_vllm, as_llama}) {
    QUIRE_ASSIGN_OR_RETURN(const Answer answer, fetch(address, "/tokenize", api_key,
                                                      json::serialize(body), kProbeSeconds));
    if (answer.status != 200) continue;
    const auto parsed = parse_json(answer.body, "/tokenize");
    if (!parsed.ok() || !parsed->is_object()) continue;
    const JsonReader reader(parsed->get_object(), "/tokenize");
    auto ids = read_token_ids(reader, "tokens");
    if (!ids.ok() || ids->empty()) continue;
    std::sort(ids->begin(), ids->end());
    ids->erase(std::unique(ids->begin(), ids->end()), ids->end());
    return ids;
  }
  return TokenIds();
}

}  // namespace quire::bench
