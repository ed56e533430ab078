#include "serve/page/page_info.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "serve/protocols/conversation_defaults.h"
#include "serve/protocols/sampling_fields.h"

namespace quire {
namespace {

std::string_view kind_name(SamplingFieldKind kind) {
  switch (kind) {
    case SamplingFieldKind::kInteger:
      return "integer";
    case SamplingFieldKind::kNumber:
      return "number";
    case SamplingFieldKind::kBoolean:
      return "boolean";
    case SamplingFieldKind::kStrings:
      return "strings";
    case SamplingFieldKind::kTokenIds:
      return "token_ids";
    case SamplingFieldKind::kBiases:
      return "biases";
    case SamplingFieldKind::kStructuredOutputs:
      return "structured_outputs";
    case SamplingFieldKind::kEarlyStopping:
      return "early_stopping";
  }
  return "";
}

// Every sampling parameter with its default. The limit on output tokens is the request's kind's own
// affair unless generation_config.json has one: null then. `start` is what the page's controls
// begin with and send.
json::array sampling_parameters(const Engine& engine) {
  const auto configured = engine.generation_config_fields();
  const ConversationDefaults start = conversation_defaults(engine);
  json::array list;
  for (const SamplingField& field : sampling_fields()) {
    const bool from_config = std::ranges::find(configured, field.name) != configured.end();
    json::value value = field.show(engine.default_sampling_params());
    json::value started = field.show(start.params);
    if (field.name == "max_tokens" && !from_config) value = started = nullptr;
    list.push_back({{"name", field.name},
                    {"kind", kind_name(field.kind)},
                    {"description", field.description},
                    {"rules", field.rules},
                    {"default", std::move(value)},
                    {"start", std::move(started)},
                    {"source", from_config ? "generation_config" : "default"}});
  }
  return list;
}

json::object model_facts_json(const ServedModel& served) {
  const EngineInfo& info = served.engine().info();
  const ModelFacts& model = info.model;
  json::array encodings;
  for (const EncodingTotal& each : model.encodings) {
    encodings.push_back({{"encoding", each.encoding},
                         {"tensors", each.tensors},
                         {"elements", each.elements},
                         {"bytes", each.bytes}});
  }
  const json::array names(served.config().served_model_names.begin(),
                          served.config().served_model_names.end());
  return {{"name", info.model_name},
          {"served_names", names},
          {"architecture", info.architecture},
          {"num_layers", model.num_layers},
          {"hidden_size", info.hidden_size},
          {"intermediate_size", model.intermediate_size},
          {"num_attention_heads", model.num_heads},
          {"num_key_value_heads", model.num_kv_heads},
          {"head_dim", model.head_dim},
          {"latent_dims", model.latent_dims},
          {"vocab_size", info.vocab_size},
          {"max_position_embeddings", model.max_position_embeddings},
          {"rope_theta", model.rope_theta ? json::value(*model.rope_theta) : json::value(nullptr)},
          {"tie_word_embeddings", model.tie_word_embeddings},
          {"chat_template", model.chat_template},
          {"encodings", std::move(encodings)}};
}

json::object engine_json(const EngineInfo& info) {
  return {{"device", info.device},
          {"isa_level", info.isa_level},
          {"activation", info.activation},
          {"kv_cache_dtype", info.kv_cache_dtype},
          {"threads", info.threads},
          {"max_model_len", info.max_model_len},
          {"block_size", info.block_size},
          {"num_blocks", info.num_blocks},
          {"weight_bytes", info.weight_bytes},
          {"kv_cache_bytes", info.kv_cache_bytes},
          {"kv_bytes_per_token", info.kv_bytes_per_token}};
}

}  // namespace

json::object page_info(const ServedModel& served) {
  const EngineInfo& info = served.engine().info();
  const bool planned = info.plan.total() > 0;  // a simulated engine has none
  return {{"model", model_facts_json(served)},
          {"engine", engine_json(info)},
          {"memory_plan", planned ? json::value(info.plan.to_json()) : json::value()},
          {"sampling", sampling_parameters(served.engine())},
          {"max_logprobs", served.max_logprobs()}};
}

Route page_info_route(Service& service) {
  return {.method = "GET",
          .pattern = "/page/info",
          .handler =
              [&service](const auto& exchange) {
                exchange->respond({.headers = {{"Cache-Control", "no-store"}},
                                   .body = json::serialize(page_info(service.model()))});
              },
          .inline_handler = true};
}

}  // namespace quire
