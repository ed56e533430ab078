#include "apps/model_report.h"

#include <string_view>
#include <utility>

#include "load/embedding_defaults.h"
#include "load/model_facts.h"

namespace quire {
namespace {

json::object embedding_report(const EmbeddingDefaults& embedding) {
  const Status status = embedding.check();
  return {{"pooling", pooling_name(embedding.pooling)},
          {"normalize", embedding.normalize},
          {"source", embedding.source},
          {"error", status.ok() ? json::value() : json::value(status.message())}};
}

}  // namespace

std::uint64_t kv_token_bytes(const ModelBundle& bundle, DType dtype) {
  const std::int32_t block_size = EngineArgs().block_size;
  return kv_block_bytes(bundle, dtype, block_size) / static_cast<std::uint64_t>(block_size);
}

json::object model_report(const ModelBundle& bundle, const Result<EngineSizes>& sizes) {
  const DecoderSpec& spec = bundle.spec;
  json::object report;
  report["model"] = bundle.name;
  report["architecture"] = spec.architecture;
  report["num_layers"] = spec.num_layers();
  report["hidden_size"] = spec.hidden_size;
  report["intermediate_size"] = spec.layers[0].intermediate_size();
  const ModelFacts facts = model_facts(bundle);
  report["num_experts"] = facts.num_experts;
  report["num_experts_per_tok"] = facts.experts_per_token;
  report["expert_intermediate_size"] = facts.expert_size;
  report["num_moe_layers"] = facts.num_moe_layers;
  report["active_weights"] = facts.active_weights;
  report["num_attention_heads"] = facts.num_heads;
  report["num_key_value_heads"] = facts.num_kv_heads;
  report["head_dim"] = facts.head_dim;
  report["kv_latent_dims"] = facts.latent_dims;
  report["altup_num_inputs"] = facts.num_streams;
  report["laurel_rank"] = facts.laurel_rank;
  report["hidden_size_per_layer_input"] = facts.per_layer_width;
  report["num_sparse_layers"] = facts.num_sparse_layers;
  report["num_kv_shared_layers"] = facts.num_shared_layers;
  report["vocab_size"] = spec.vocab_size;
  report["max_position_embeddings"] = spec.max_position_embeddings;
  report["rope_theta"] = facts.rope_theta ? json::value(*facts.rope_theta) : json::value(nullptr);
  report["rms_norm_eps"] = spec.norm.epsilon;
  report["tie_word_embeddings"] = spec.tie_word_embeddings;
  report["chat_template"] = bundle.text.chat_template.has_value();
  report["embedding"] = embedding_report(bundle.embedding_defaults);
  json::object token_bytes;
  for (const DType dtype : kKvCacheTypes) {
    token_bytes[dtype_name(dtype)] = kv_token_bytes(bundle, dtype);
  }
  report["kv_bytes_per_token"] = std::move(token_bytes);
  json::object encodings;
  for (const EncodingTotal& total : facts.encodings) {
    encodings[total.encoding] = {
        {"tensors", total.tensors}, {"elements", total.elements}, {"bytes", total.bytes}};
  }
  report["encodings"] = std::move(encodings);
  if (sizes.ok()) {
    report["memory_plan"] = sizes->plan.to_json();
  } else {
    report["memory_plan_error"] = sizes.status().to_string();
  }
  report["skipped_tensors"] = {
      {"tensors", bundle.skipped.tensors},
      {"bytes", bundle.skipped.bytes},
      {"parts", json::array(bundle.skipped.parts.begin(), bundle.skipped.parts.end())}};
  json::array tensors;
  for (const TensorInfo& tensor : bundle.weights->tensors()) {
    json::array shape(tensor.shape.begin(), tensor.shape.end());
    tensors.push_back({{"name", tensor.name},
                       {"encoding", tensor.format_name()},
                       {"shape", std::move(shape)},
                       {"bytes", tensor.bytes()},
                       {"file", tensor.file},
                       {"offset", tensor.file_offset}});
  }
  report["tensors"] = std::move(tensors);
  return report;
}

}  // namespace quire
