// `quire inspect`: what a model is, read from headers alone; no weights are loaded.
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/commands.h"
#include "apps/engine_flags.h"
#include "apps/help.h"
#include "apps/local_model.h"
#include "base/printable.h"
#include "engine/engine_args.h"
#include "engine/engine_sizing.h"
#include "kernels/packed_weight.h"
#include "load/model_bundle.h"
#include "load/model_facts.h"
#include "models/decoder_model.h"

namespace quire {
namespace {

struct InspectFlags {
  EngineArgs engine;
  bool json = false;
  bool tensors = false;
};

// What --kv-cache-dtype offers.
constexpr std::array kKvCacheTypes = {DType::kBF16, DType::kF32, DType::kF8E4M3, DType::kI8};

// Bytes a token, scales included.
std::uint64_t kv_token_bytes(const ModelBundle& bundle, DType dtype) {
  const std::int32_t block_size = EngineArgs().block_size;
  return kv_block_bytes(bundle, dtype, block_size) / static_cast<std::uint64_t>(block_size);
}

json::object embedding_report(const EmbeddingDefaults& embedding) {
  const Status status = embedding.check();
  return {{"pooling", pooling_name(embedding.pooling)},
          {"normalize", embedding.normalize},
          {"source", embedding.source},
          {"error", status.ok() ? json::value() : json::value(status.message())}};
}

std::string embedding_text(const EmbeddingDefaults& embedding) {
  if (const Status status = embedding.check(); !status.ok()) {
    return fmt::format("none: {}", status.message());
  }
  return fmt::format("{} pooling, {}normalized ({})", pooling_name(embedding.pooling),
                     embedding.normalize ? "" : "not ",
                     embedding.source.empty() ? "the model says nothing" : embedding.source);
}

// Numbers and sizes of heads; with how many layers have them, where layers differ.
std::string heads_text(const DecoderSpec& spec) {
  std::vector<std::pair<std::string, std::int64_t>> kinds;
  std::int64_t readers = 0;
  for (const LayerSpec& layer : spec.layers) {
    const KvHeads heads = layer.kv_heads();
    const std::string text =
        heads.latent_dims != 0
            ? fmt::format("{} heads over one latent of {} (MLA), of which {} are the value",
                          heads.num_heads, heads.head_dim, heads.latent_dims)
            : fmt::format("{} heads over {} KV heads of {}", heads.num_heads, heads.num_kv_heads,
                          heads.head_dim);
    if (layer.kv_layer() != kOwnKeys) ++readers;
    const auto kind = std::ranges::find(kinds, text, &std::pair<std::string, std::int64_t>::first);
    if (kind == kinds.end()) {
      kinds.emplace_back(text, 1);
    } else {
      ++kind->second;
    }
  }
  std::vector<std::string> parts;
  for (const auto& [text, count] : kinds) {
    parts.push_back(kinds.size() == 1 ? text : fmt::format("{} in {} layers", text, count));
  }
  if (readers != 0) parts.push_back(fmt::format("{} layers read those of others", readers));
  return fmt::format("{}", fmt::join(parts, ", "));
}

void print_model_as_json(const ModelBundle& bundle, const Result<EngineSizes>& sizes) {
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
  fmt::print("{}\n", json::serialize(report));
}

std::string positions_text(const DecoderSpec& spec) {
  if (!spec.ropes.empty()) return fmt::format("rope base {}", spec.ropes[0].theta);
  if (spec.positions.kind == PositionKind::kLearned) return "learned";
  if (spec.positions.kind == PositionKind::kSinusoidal) return "sinusoidal";
  return spec.attention().alibi_slopes.empty() ? "none" : "linear biases";
}

void print_model(const ModelBundle& bundle, const Result<EngineSizes>& sizes, bool list_tensors) {
  const DecoderSpec& spec = bundle.spec;
  const auto line = [](std::string_view name, const std::string& value) {
    fmt::print("{:<20}{}\n", name, printable(value, 1000));
  };
  line("model", bundle.name);
  line("architecture", spec.architecture);
  line("layers", fmt::format("{}", spec.num_layers()));
  line("hidden size",
       fmt::format("{} (MLP {})", spec.hidden_size, spec.layers[0].intermediate_size()));
  const ModelFacts facts = model_facts(bundle);
  if (facts.num_experts != 0) {
    line("experts",
         fmt::format("{} of {} for each token, of {}, in {} layers", facts.experts_per_token,
                     facts.num_experts, facts.expert_size, facts.num_moe_layers));
    line("active weights", fmt::format("{} for each token", facts.active_weights));
  }
  line("attention", heads_text(spec));
  line("positions",
       fmt::format("up to {}, {}", spec.max_position_embeddings, positions_text(spec)));
  line("vocabulary",
       fmt::format("{}{}", spec.vocab_size, spec.tie_word_embeddings ? ", embeddings tied" : ""));
  line("chat template", bundle.text.chat_template ? "yes" : "no");
  line("embeddings", embedding_text(bundle.embedding_defaults));
  std::vector<std::string> token_bytes;
  token_bytes.reserve(kKvCacheTypes.size());
  for (const DType dtype : kKvCacheTypes) {
    token_bytes.push_back(
        fmt::format("{} in {}", kv_token_bytes(bundle, dtype), dtype_name(dtype)));
  }
  line("KV cache", fmt::format("bytes a token: {}", fmt::join(token_bytes, ", ")));
  // Those of quantized safetensors are words.
  std::size_t width = 10;
  for (const EncodingTotal& total : facts.encodings) {
    width = std::max(width, total.encoding.size() + 1);
  }
  const auto row = [&](std::string_view encoding, const auto&... numbers) {
    fmt::print("{:<{}}{:>9}{:>16}{:>16}\n", encoding, width, numbers...);
  };
  fmt::print("\n");
  row("encoding", "tensors", "weights", "bytes");
  EncodingTotal all;
  for (const EncodingTotal& total : facts.encodings) {
    row(total.encoding, total.tensors, total.elements, total.bytes);
    all.tensors += total.tensors;
    all.elements += total.elements;
    all.bytes += total.bytes;
  }
  row("all", all.tensors, all.elements, all.bytes);
  if (bundle.skipped.tensors != 0) {
    fmt::print("\nnot loaded, because text is all that is read: {}\n", bundle.skipped.to_text());
  }
  if (sizes.ok()) fmt::print("\nmemory plan\n{}", sizes->plan.to_text());
  if (!list_tensors) return;
  width = width == 10 ? 8 : width;
  fmt::print("\n{:<48}{:<{}}{:>20}{:>14}\n", "tensor", "", width, "shape", "bytes");
  for (const TensorInfo& tensor : bundle.weights->tensors()) {
    fmt::print("{:<48}{:<{}}{:>20}{:>14}\n", printable(tensor.name), tensor.format_name(), width,
               fmt::format("[{}]", fmt::join(tensor.shape, ", ")), tensor.bytes());
  }
}

Status run_inspect(InspectFlags flags) {
  EngineArgs& args = flags.engine;
  QUIRE_RETURN_IF_ERROR(check_engine_args(args));
  QUIRE_RETURN_IF_ERROR(make_models_local(args));
  const std::uint64_t heap_before = heap_bytes();
  QUIRE_ASSIGN_OR_RETURN(const ModelBundle bundle, open_model(args.model, args.tokenizer));
  QUIRE_RETURN_IF_ERROR(check_tensors(bundle.spec, *bundle.weights));
  const auto sizes = size_engine(args, bundle, heap_bytes() - heap_before, read_memory_limits());
  if (flags.json) {
    print_model_as_json(bundle, sizes);
  } else {
    print_model(bundle, sizes, flags.tensors);
  }
  return sizes.status();
}

}  // namespace

Command add_inspect(CLI::App& app) {
  auto flags = std::make_shared<InspectFlags>();
  set_help(app, {{{"quire inspect", "the bundled model"},
                  {"quire inspect MODEL --max-model-len 4k", "and what memory it would take so"}}});
  app.add_flag("--tensors", flags->tensors, "List every tensor");
  app.add_flag("--json", flags->json, "Print one JSON object, tensors included");
  add_engine_flags(app, flags->engine);
  return [flags] { return run_inspect(*flags); };
}

}  // namespace quire
