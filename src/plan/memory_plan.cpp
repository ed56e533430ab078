#include "plan/memory_plan.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <string>
#include <unordered_set>

#include <fmt/format.h>

#include "base/checked.h"
#include "kernels/sizing.h"

namespace quire {
namespace {

std::string mebibytes(std::uint64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1U << 20));
}

// Pages of the pool, and what limited them.
struct PoolSize {
  std::int64_t blocks = 0;
  std::uint64_t bytes = 0;  // that the pool may use
};

PoolSize pool_size(const MemoryPlanInput& input, std::uint64_t memory_left, bool of_gpu) {
  const std::uint64_t share = of_gpu ? memory_left : memory_left / 4;
  const std::uint64_t bytes = input.kv_cache_memory_bytes.value_or(share);
  const auto affordable = static_cast<std::int64_t>(
      std::min<std::uint64_t>(bytes / (input.kv_page_bytes + input.draft_page_bytes),
                              std::numeric_limits<std::int32_t>::max()));
  return {.blocks = std::min(input.all_pages, affordable), .bytes = bytes};
}

std::int64_t order_bytes(const TensorInfo& tensor) {
  return static_cast<std::int64_t>(tensor.input_order.size_bytes());
}

// Query, key and value projections are packed as one where their encodings agree: the bytes of
// padding that they then do without. Fewer than none where the keys' matrix serves as the values'.
std::int64_t shared_padding(const DecoderSpec& spec, const WeightSource& source,
                            LoadQuantization quantization, std::int64_t layer) {
  const auto packed = [&](const TensorInfo& like, std::int64_t outputs) {
    return static_cast<std::int64_t>(packed_weight_bytes(like.encoding, outputs, like.shape[1],
                                                         quantization, /*vocabulary=*/false));
  };
  const AttentionSpec* const attention =
      spec.layers[static_cast<std::size_t>(layer)].plain_attention();
  if (attention == nullptr) return 0;  // latent: no three matrices
  if (attention->kv_layer != kOwnKeys) return 0;
  const TensorRole value = attention->values_are_keys ? TensorRole::kKey : TensorRole::kValue;
  std::int64_t apart = 0;
  std::int64_t outputs = 0;
  const TensorInfo* first = nullptr;
  bool alike = true;
  for (const TensorRole role : {TensorRole::kQuery, TensorRole::kKey, value}) {
    const TensorInfo* tensor = source.find(spec.names.name(role, layer));
    if (tensor == nullptr || tensor->shape.size() != 2) return 0;
    if (first == nullptr) first = tensor;
    // Those that cannot be stacked are packed apart.
    const bool stacks = tensor->encoding != Encoding::kF8Block128 || tensor->shape[0] % 16 == 0;
    alike = alike && stacks && tensor->encoding == first->encoding &&
            tensor->shape[1] == first->shape[1];
    apart += packed(*tensor, tensor->shape[0]) + order_bytes(*tensor);
    outputs += tensor->shape[0];
  }
  const TensorInfo& key = *source.find(spec.names.name(TensorRole::kKey, layer));
  const std::int64_t twice =
      attention->values_are_keys ? packed(key, key.shape[0]) + order_bytes(key) : 0;
  return (alike ? apart - packed(*first, outputs) - order_bytes(*first) : 0) - twice;
}

// Gate and up projections that lie in the file as one, of an MLP or of each expert, are packed as
// two: the bytes of padding that they then need.
std::uint64_t split_padding(const DecoderSpec& spec, const WeightSource& source,
                            LoadQuantization quantization, std::int64_t layer) {
  std::uint64_t bytes = 0;
  for (const TensorRole role : {TensorRole::kGateUp, TensorRole::kExpertGateUps}) {
    const std::string name = spec.names.name(role, layer);
    const TensorInfo* tensor = name.empty() ? nullptr : source.find(name);
    const std::size_t dims = role == TensorRole::kGateUp ? 2 : 3;
    if (tensor == nullptr || tensor->shape.size() != dims) continue;
    const LayerSpec& owner = spec.layers[static_cast<std::size_t>(layer)];
    const auto* const mlp = std::get_if<GatedMlpSpec>(&owner.feed_forward);
    if (dims == 2 && (mlp == nullptr || !mlp->fused_gate_up)) continue;
    if (owner.moe() != nullptr && owner.moe()->turned()) continue;
    const std::int64_t rows = tensor->shape[dims - 2];
    const auto packed = [&](std::int64_t outputs) {
      return packed_weight_bytes(tensor->encoding, outputs, tensor->shape[dims - 1], quantization,
                                 /*vocabulary=*/false);
    };
    const auto count = static_cast<std::uint64_t>(dims == 2 ? 1 : tensor->shape[0]);
    bytes += count * (2 * packed(rows / 2) - packed(rows)) +
             static_cast<std::uint64_t>(order_bytes(*tensor));
  }
  return bytes;
}

// What keys and values of latent attention are made with is packed as two matrices for each head:
// the bytes that this costs.
std::uint64_t head_padding(const LayerSpec& layer, const DecoderSpec& spec,
                           const WeightSource& source, LoadQuantization quantization,
                           std::int64_t index) {
  const LatentAttentionSpec* const latent = layer.latent_attention();
  if (latent == nullptr) return 0;
  const TensorInfo* const tensor = source.find(spec.names.name(TensorRole::kLatentUp, index));
  if (tensor == nullptr) return 0;
  const auto packed = [&](std::int64_t outputs, std::int64_t inputs) {
    return packed_weight_bytes(tensor->encoding, outputs, inputs, quantization,
                               /*vocabulary=*/false);
  };
  return static_cast<std::uint64_t>(latent->num_heads) *
             (packed(latent->latent_dims, latent->key_dims) +
              packed(latent->value_dims, latent->latent_dims)) -
         packed(tensor->shape[0], tensor->shape[1]);
}

// What the matrices of experts whose rows are inputs need, and what their biases need as floats,
// less what both would need as matrices as they are.
std::uint64_t turned_bytes(const DecoderSpec& spec, const WeightSource& source,
                           LoadQuantization quantization, std::int64_t layer) {
  const MoeSpec* const moe = spec.layers[static_cast<std::size_t>(layer)].moe();
  if (moe == nullptr) return 0;
  using enum TensorRole;
  std::uint64_t bytes = 0;
  for (const TensorRole role : {kExpertGateUps, kExpertDowns}) {
    const TensorInfo* tensor = moe->turned() ? source.find(spec.names.name(role, layer)) : nullptr;
    if (tensor == nullptr || tensor->shape.size() != 3) continue;
    const auto packed = [&](std::int64_t outputs, std::int64_t inputs) {
      return static_cast<std::uint64_t>(tensor->shape[0]) *
             packed_weight_bytes(tensor->encoding, outputs, inputs, quantization,
                                 /*vocabulary=*/false);
    };
    const std::int64_t matrices = role == kExpertGateUps ? 2 : 1;
    bytes += static_cast<std::uint64_t>(matrices) *
             packed(tensor->shape[2] / matrices, tensor->shape[1]);
    bytes -= packed(tensor->shape[1], tensor->shape[2]);
  }
  for (const TensorRole role :
       {kExpertGateUpBiases, kExpertGateBiases, kExpertUpBiases, kExpertDownBiases}) {
    const TensorInfo* tensor = moe->biases ? source.find(spec.names.name(role, layer)) : nullptr;
    if (tensor == nullptr || tensor->shape.size() != 2) continue;
    bytes += static_cast<std::uint64_t>(tensor->shape[0] * tensor->shape[1]) * sizeof(float);
    bytes -= packed_weight_bytes(tensor->encoding, tensor->shape[0], tensor->shape[1], quantization,
                                 /*vocabulary=*/false);
  }
  return bytes;
}

// What decides where a token goes is never quantized at load, and a bias is no matrix even where
// the file has it as one: the bytes that this costs.
std::uint64_t router_bytes(const DecoderSpec& spec, const WeightSource& source,
                           LoadQuantization quantization, std::int64_t layer) {
  std::uint64_t bytes = 0;
  for (const TensorRole role :
       {TensorRole::kRouter, TensorRole::kSharedExpertGate, TensorRole::kAltUpRouter}) {
    const std::string name = spec.names.name(role, layer);
    const TensorInfo* tensor = name.empty() ? nullptr : source.find(name);
    if (tensor == nullptr || tensor->shape.empty() || tensor->shape.size() > 2) continue;
    const bool is_row = tensor->shape.size() == 1;
    const auto packed = [&](LoadQuantization as) {
      return packed_weight_bytes(tensor->encoding, is_row ? 1 : tensor->shape[0],
                                 tensor->shape.back(), as, /*vocabulary=*/false);
    };
    const std::uint64_t planned = is_row
                                      ? static_cast<std::uint64_t>(tensor->shape[0]) * sizeof(float)
                                      : packed(quantization);
    bytes += packed(LoadQuantization::kNone) - planned;
  }
  const std::string name = spec.names.name(TensorRole::kRouterBias, layer);
  const TensorInfo* bias = name.empty() ? nullptr : source.find(name);
  if (bias != nullptr && bias->shape.size() == 2) {
    bytes += static_cast<std::uint64_t>(bias->shape[1]) * sizeof(float) -
             packed_weight_bytes(bias->encoding, bias->shape[0], bias->shape[1], quantization,
                                 /*vocabulary=*/false);
  }
  return bytes;
}

std::string blocks_text(const MemoryPlan& plan) {
  if (plan.pages_per_block() == 1) {
    return fmt::format("{} blocks of {} tokens", plan.num_blocks, plan.block_size);
  }
  return fmt::format("{} pages, {} for each block of {} tokens", plan.num_blocks,
                     plan.pages_per_block(), plan.block_size);
}

std::string kept_text(const PlannedKvGroup& group) {
  if (group.state_bytes != 0) {
    return fmt::format("a state of {} bytes in all, and one for each block that is cached",
                       group.state_bytes);
  }
  return group.window == 0 ? "all tokens" : fmt::format("the last {} tokens", group.window);
}

std::string budget_text(const MemoryPlan& plan, double utilization) {
  const std::string whose = !plan.limits.gpu.empty() ? "the memory of " + plan.limits.gpu
                            : plan.limits.cgroup     ? "the cgroup's limit"
                                                     : "this machine's memory";
  return fmt::format("{} ({:.0f}% of {}, {}, of which {} are free now)", mebibytes(plan.budget),
                     utilization * 100, whose, mebibytes(plan.limits.total),
                     mebibytes(plan.limits.available));
}

}  // namespace

std::int64_t MemoryPlan::pages_per_block() const {
  std::int64_t pages = 0;
  for (const PlannedKvGroup& group : kv_groups) pages += group.pages_per_block;
  return pages;
}

std::int64_t MemoryPlan::kv_tokens() const {
  if (kv_groups.size() == 1 && kv_groups[0].window == 0 && kv_groups[0].state_bytes == 0) {
    return num_blocks / kv_groups[0].pages_per_block * block_size;
  }
  return num_blocks * max_model_len / sequence_pages;
}

double MemoryPlan::full_sequences() const {
  return static_cast<double>(kv_tokens()) / max_model_len;
}

std::string MemoryPlan::to_text() const {
  std::string text;
  const auto line = [&](std::string_view name, std::uint64_t bytes, const std::string& detail) {
    text += fmt::format("{:<14}{:>12}{}{}\n", name, mebibytes(bytes), detail.empty() ? "" : "  ",
                        detail);
  };
  line("weights", weight_bytes, "");
  line("KV cache", kv_cache_bytes,
       fmt::format("{}: {} tokens, {:.1f} sequences of {}", blocks_text(*this), kv_tokens(),
                   full_sequences(), max_model_len));
  for (const PlannedKvGroup& group : kv_groups) {
    if (group.window == 0 && kv_groups.size() == 1) break;
    text += fmt::format("{:28}{} layers keep {}\n", "", group.num_layers, kept_text(group));
  }
  if (max_pinned_blocks > 0) {
    text += fmt::format("{:28}of these, prefixes may be pinned in {}\n", "", max_pinned_blocks);
  }
  line("activations", activation_bytes, "");
  line("workspace", workspace_bytes, "");
  if (draft_bytes > 0) line("drafts", draft_bytes, "");
  if (offload_blocks > 0) {
    line("offloading", offload_bytes,
         fmt::format("for {} blocks in files: {} tokens, {}", offload_blocks,
                     offload_blocks * block_size, mebibytes(offload_disk_bytes)));
  }
  if (limits.gpu.empty()) line("tables", table_bytes, "");
  line("all", total(),
       fmt::format("of {} that it may take{}", mebibytes(budget),
                   !limits.gpu.empty() ? " of the memory of " + limits.gpu
                   : limits.cgroup     ? ", by the limit of its cgroup"
                                       : ""));
  if (!limits.gpu.empty()) line("host", host_bytes, "of the machine's memory");
  for (const NumaNode& node : limits.numa_nodes) {
    line(fmt::format("NUMA node {}", node.id), node.bytes,
         node.cpus.empty() ? "no CPUs" : fmt::format("CPUs {}", node.cpus));
  }
  return text;
}

std::string MemoryPlan::to_line() const {
  return fmt::format(
      "memory: {} = weights {} + KV cache {} ({} tokens) + activations {} + workspace {}{}{}{}, of "
      "{}",
      mebibytes(total()), mebibytes(weight_bytes), mebibytes(kv_cache_bytes), kv_tokens(),
      mebibytes(activation_bytes), mebibytes(workspace_bytes),
      draft_bytes > 0 ? " + drafts " + mebibytes(draft_bytes) : "",
      offload_blocks > 0
          ? fmt::format(" + offloading {} ({} tokens in files of {})", mebibytes(offload_bytes),
                        offload_blocks * block_size, mebibytes(offload_disk_bytes))
          : "",
      limits.gpu.empty() ? " + tables " + mebibytes(table_bytes) : "", mebibytes(budget));
}

json::object MemoryPlan::to_json() const {
  json::array groups;
  for (const PlannedKvGroup& group : kv_groups) {
    groups.push_back(json::object{{"window", group.window},
                                  {"state_bytes", group.state_bytes},
                                  {"num_layers", group.num_layers},
                                  {"pages_per_block", group.pages_per_block}});
  }
  json::array nodes;
  for (const NumaNode& node : limits.numa_nodes) {
    nodes.push_back(
        json::object{{"id", node.id}, {"cpus", node.cpus}, {"memory_total_bytes", node.bytes}});
  }
  return {{"weight_bytes", weight_bytes},
          {"kv_cache_bytes", kv_cache_bytes},
          {"activation_bytes", activation_bytes},
          {"workspace_bytes", workspace_bytes},
          {"draft_bytes", draft_bytes},
          {"offload_bytes", offload_bytes},
          {"offload_blocks", offload_blocks},
          {"offload_disk_bytes", offload_disk_bytes},
          {"table_bytes", table_bytes},
          {"host_bytes", host_bytes},
          {"total_bytes", total()},
          {"num_blocks", num_blocks},
          {"max_pinned_blocks", max_pinned_blocks},
          {"sequence_pages", sequence_pages},
          {"kv_groups", std::move(groups)},
          {"block_size", block_size},
          {"kv_tokens", kv_tokens()},
          {"max_model_len", max_model_len},
          {"full_sequences", full_sequences()},
          {"budget_bytes", budget},
          {"memory_total_bytes", limits.total},
          {"memory_available_bytes", limits.available},
          {"memory_limit", !limits.gpu.empty() ? "gpu"
                           : limits.cgroup     ? "cgroup"
                                               : "machine"},
          {"gpu", limits.gpu},
          {"numa_nodes", std::move(nodes)}};
}

std::uint64_t planned_weight_bytes(const DecoderSpec& spec, const WeightSource& source,
                                   std::int64_t max_positions, LoadQuantization quantization) {
  std::uint64_t bytes = spec.computed_bytes(max_positions);
  const std::string embedding = spec.names.name(TensorRole::kEmbedding);
  const std::string output = spec.names.name(TensorRole::kOutput);
  const std::string per_layer = spec.names.name(TensorRole::kPerLayerEmbedding);
  // Rows of these are numbers, which computed_bytes() has.
  std::unordered_set<std::string> numbers = {spec.names.name(TensorRole::kPositions)};
  for (std::int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    for (const TensorRole role :
         {TensorRole::kShortConv, TensorRole::kAltUpPredict, TensorRole::kAltUpCorrect}) {
      numbers.insert(spec.names.name(role, layer));
    }
  }
  for (const TensorInfo& tensor : source.tensors()) {
    // Where embeddings are tied, some files repeat them; they are not loaded.
    if (spec.tie_word_embeddings && tensor.name == output) continue;
    if (spec.is_unread(tensor.name)) continue;
    if (numbers.contains(tensor.name)) continue;
    if (tensor.shape.size() == 2) {
      const bool vocabulary =
          tensor.name == embedding || tensor.name == output || tensor.name == per_layer;
      const std::size_t outputs = spec.transposed_matrices && !vocabulary ? 1 : 0;
      // Tokens without an embedding for the layers have the first token's.
      const std::int64_t rows = tensor.name == per_layer
                                    ? std::max(tensor.shape[0], spec.vocab_size)
                                    : tensor.shape[outputs];
      bytes += packed_weight_bytes(tensor.encoding, rows, tensor.shape[1 - outputs], quantization,
                                   vocabulary) +
               static_cast<std::uint64_t>(order_bytes(tensor));
    } else if (tensor.shape.size() == 3) {  // a matrix of each expert
      bytes += static_cast<std::uint64_t>(tensor.shape[0]) *
               packed_weight_bytes(tensor.encoding, tensor.shape[1], tensor.shape[2], quantization,
                                   /*vocabulary=*/false);
    } else if (tensor.shape.size() < 2) {
      const std::int64_t count = tensor.shape.empty() ? 1 : tensor.shape[0];
      bytes += static_cast<std::uint64_t>(count) * sizeof(float);
    }
  }
  for (std::int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    bytes -= static_cast<std::uint64_t>(shared_padding(spec, source, quantization, layer));
    bytes += split_padding(spec, source, quantization, layer);
    bytes += router_bytes(spec, source, quantization, layer);
    bytes += head_padding(spec.layers[static_cast<std::size_t>(layer)], spec, source, quantization,
                          layer);
    bytes += turned_bytes(spec, source, quantization, layer);
  }
  return bytes;
}

std::int64_t max_pinned_pages(std::int64_t num_pages, std::int64_t sequence_pages, double share) {
  const auto most = static_cast<std::int64_t>(share * static_cast<double>(num_pages));
  return std::clamp<std::int64_t>(num_pages - sequence_pages, 0, most);
}

Result<MemoryPlan> make_memory_plan(const MemoryPlanInput& input, const MemoryLimits& limits) {
  const double utilization = input.gpu_memory_utilization;
  if (!(utilization > 0 && utilization <= 1)) {
    return Status::invalid_argument(
        fmt::format("--gpu-memory-utilization {}: expected a share in (0, 1]", utilization));
  }
  MemoryPlan plan;
  plan.weight_bytes = input.weight_bytes;
  plan.activation_bytes = input.activation_bytes;
  plan.workspace_bytes = input.workspace_bytes;
  plan.draft_bytes = input.draft_bytes;
  plan.offload_bytes = input.offload_bytes;
  plan.offload_disk_bytes = input.offload_disk_bytes;
  plan.offload_blocks = input.offload_blocks;
  plan.table_bytes = input.table_bytes;
  plan.host_bytes = input.host_bytes;
  plan.block_size = input.block_size;
  plan.kv_groups = input.kv_groups;
  plan.sequence_pages = input.sequence_pages;
  plan.max_model_len = input.max_model_len;
  plan.limits = limits;
  const double share = utilization * static_cast<double>(limits.total);
  // Tables are in memory already: they are not part of what is free.
  plan.budget = std::min(static_cast<std::uint64_t>(share), limits.available + input.table_bytes);

  const std::uint64_t fixed = plan.total();
  if (fixed >= plan.budget) {
    const bool weights_alone = plan.weight_bytes >= plan.budget;
    return Status::resource_exhausted(
        fmt::format("the weights take {}, activations and workspace {}, which leaves nothing for "
                    "the KV cache within {}",
                    mebibytes(plan.weight_bytes),
                    mebibytes(plan.activation_bytes + plan.workspace_bytes),
                    budget_text(plan, utilization)),
        weights_alone ? "free memory, raise --gpu-memory-utilization, or use a smaller or more "
                        "strongly quantized model"
                      : "lower --max-num-batched-tokens or --max-num-seqs");
  }
  const PoolSize pool = pool_size(input, plan.budget - fixed, !limits.gpu.empty());
  plan.num_blocks = pool.blocks;
  plan.max_pinned_blocks =
      max_pinned_pages(pool.blocks, input.prompt_pages, input.max_pinned_share);
  if (pool.blocks < input.prompt_pages) {
    return Status::resource_exhausted(
        fmt::format(
            "a KV cache of {} holds {}; one sequence of --max-model-len {} needs {} {}, {}",
            mebibytes(pool.bytes), blocks_text(plan), input.max_model_len, input.prompt_pages,
            plan.pages_per_block() == 1 ? "blocks" : "pages",
            mebibytes(static_cast<std::uint64_t>(input.prompt_pages) * input.kv_page_bytes)),
        input.kv_cache_memory_bytes ? "raise --kv-cache-memory-bytes or lower --max-model-len"
                                    : "lower --max-model-len, or set --kv-cache-memory-bytes");
  }
  plan.kv_cache_bytes = static_cast<std::uint64_t>(pool.blocks) * input.kv_page_bytes;
  const std::uint64_t block_tables =
      static_cast<std::uint64_t>(pool.blocks) * input.block_table_bytes;
  (limits.gpu.empty() ? plan.table_bytes : plan.host_bytes) += block_tables;
  plan.draft_bytes += static_cast<std::uint64_t>(pool.blocks) * input.draft_page_bytes;
  if (plan.total() > plan.budget) {
    return Status::resource_exhausted(
        fmt::format("the plan takes {}: weights {}, KV cache {}, activations and workspace {}; it "
                    "may take {}",
                    mebibytes(plan.total()), mebibytes(plan.weight_bytes),
                    mebibytes(plan.kv_cache_bytes),
                    mebibytes(plan.activation_bytes + plan.workspace_bytes),
                    budget_text(plan, utilization)),
        "lower --kv-cache-memory-bytes, or raise --gpu-memory-utilization");
  }
  return plan;
}

}  // namespace quire
