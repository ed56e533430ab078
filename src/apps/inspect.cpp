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
#include "apps/model_report.h"
#include "base/printable.h"
#include "engine/draft_model_parts.h"
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

std::string embedding_text(const EmbeddingDefaults& embedding) {
  if (const Status status = embedding.check(); !status.ok()) {
    return fmt::format("none: {}", status.message());
  }
  return fmt::format("{} pooling, {}normalized ({})", pooling_name(embedding.pooling),
                     embedding.normalize ? "" : "not ",
                     embedding.source.empty() ? "the model says nothing" : embedding.source);
}

// Numbers and sizes of heads; with how many layers have them, where layers differ.
// `readers`: layers that read keys and values of others.
std::string heads_text(const DecoderSpec& spec, std::int64_t readers) {
  std::vector<std::pair<std::string, std::int64_t>> kinds;
  for (const LayerSpec& layer : spec.layers) {
    const KvHeads heads = layer.kv_heads();
    const std::string text =
        layer.short_conv() != nullptr
            ? fmt::format("short convolutions over {} tokens", layer.short_conv()->taps)
        : heads.latent_dims != 0
            ? fmt::format("{} heads over one latent of {} (MLA), of which {} are the value",
                          heads.num_heads, heads.head_dim, heads.latent_dims)
            : fmt::format("{} heads over {} KV heads of {}", heads.num_heads, heads.num_kv_heads,
                          heads.head_dim);
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
  line("attention", heads_text(spec, facts.num_shared_layers));
  if (facts.num_streams != 0) {
    line("streams",
         fmt::format("{} of each token, of which layers compute one (AltUp)", facts.num_streams));
  }
  if (facts.laurel_rank != 0) {
    line("low-rank residual",
         fmt::format("of rank {} beside attention (LAuReL)", facts.laurel_rank));
  }
  if (facts.per_layer_width != 0) {
    line("layer embeddings",
         fmt::format("{} numbers of each token for each layer", facts.per_layer_width));
  }
  if (facts.num_sparse_layers != 0) {
    line("sparse MLPs", fmt::format("in {} layers", facts.num_sparse_layers));
  }
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
  const std::uint64_t table_bytes = heap_bytes() - heap_before;
  QUIRE_ASSIGN_OR_RETURN(const auto draft, open_draft_model(args, bundle));
  QUIRE_ASSIGN_OR_RETURN(const ComputeDevice device, choose_device(args.device, args.n_gpu_layers));
  const auto sizes = size_engine(args, bundle, draft, table_bytes, device);
  if (flags.json) {
    fmt::print("{}\n", json::serialize(model_report(bundle, sizes)));
  } else {
    print_model(bundle, sizes, flags.tensors);
  }
  return sizes.status();
}

}  // namespace

Command add_inspect(CLI::App& app) {
  auto flags = std::make_shared<InspectFlags>();
  set_help(app, {{{"quire inspect", "the bundled model"},
                  {"quire inspect MODEL --max-model-len 4k", "and the memory for this length"}}});
  app.add_flag("--tensors", flags->tensors, "List every tensor");
  app.add_flag("--json", flags->json, "Print one JSON object, tensors included");
  add_engine_flags(app, flags->engine);
  return [flags] { return run_inspect(*flags); };
}

}  // namespace quire
