#include "plan/memory_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "base/checked.h"

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

// Pages of so many bytes in `bytes`.
std::int64_t pages_in(std::uint64_t bytes, std::uint64_t page_bytes) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max();
  return static_cast<std::int64_t>(page_bytes == 0 ? kMost : std::min(bytes / page_bytes, kMost));
}

// A page has its part in both memories.
PoolSize pool_size(const MemoryPlanInput& input, std::uint64_t memory_left, std::uint64_t host_left,
                   bool of_gpu) {
  const std::uint64_t own_bytes = input.kv_page_bytes + input.draft_page_bytes;
  const std::uint64_t page_bytes = own_bytes + input.host_page_bytes;
  std::int64_t pages = 0;
  if (input.kv_cache_memory_bytes) {
    pages = pages_in(*input.kv_cache_memory_bytes, page_bytes);
  } else {
    pages = std::min(pages_in(of_gpu ? memory_left : memory_left / 4, own_bytes),
                     pages_in(host_left / 4, input.host_page_bytes));
  }
  const std::uint64_t bytes =
      input.kv_cache_memory_bytes.value_or(static_cast<std::uint64_t>(pages) * page_bytes);
  return {.blocks = std::min(input.all_pages, pages), .bytes = bytes};
}

// What a plan may take of a memory of which a part is in use already.
std::uint64_t budget_of(const MemoryLimits& limits, double utilization, std::uint64_t in_use) {
  const double share = utilization * static_cast<double>(limits.total);
  return std::min(static_cast<std::uint64_t>(share), limits.available + in_use);
}

// The host's part beside a GPU's.
Status check_host(const MemoryPlan& plan) {
  if (plan.host_part.empty() || plan.host_bytes + plan.host_part.total() <= plan.host_budget) {
    return {};
  }
  return Status::resource_exhausted(
      fmt::format("what the processor computes takes {} of the machine's memory: weights {}, KV "
                  "cache {}, activations and workspace {}, everything else {}; it may take {}",
                  mebibytes(plan.host_bytes + plan.host_part.total()),
                  mebibytes(plan.host_part.weight_bytes), mebibytes(plan.host_part.kv_cache_bytes),
                  mebibytes(plan.host_part.activation_bytes + plan.host_part.workspace_bytes),
                  mebibytes(plan.host_bytes), mebibytes(plan.host_budget)),
      "leave more to the GPU, with a higher --n-gpu-layers or a lower --n-cpu-moe");
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

std::string host_layers_text(const HostPart& part) {
  const auto layers = [](std::int64_t count) {
    return fmt::format("{} layer{}", count, count == 1 ? "" : "s");
  };
  if (part.num_layers == 0) return "the experts of " + layers(part.num_expert_layers);
  std::string text = fmt::format("embeddings and {}", layers(part.num_layers));
  if (part.num_expert_layers > 0) text += ", the experts of " + layers(part.num_expert_layers);
  return text;
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
  if (!host_part.empty()) {
    text += "\nwhat the processor computes, in the machine's memory\n";
    line("weights", host_part.weight_bytes, host_layers_text(host_part));
    if (host_part.kv_cache_bytes > 0) line("KV cache", host_part.kv_cache_bytes, "of its layers");
    line("activations", host_part.activation_bytes, "and what goes to the GPU and comes from it");
    line("workspace", host_part.workspace_bytes, "");
    line("all", host_part.total() + host_bytes,
         fmt::format("with {} of tables and results, of {} that it may take", mebibytes(host_bytes),
                     mebibytes(host_budget)));
  } else if (!limits.gpu.empty()) {
    line("host", host_bytes, "of the machine's memory");
  }
  for (const NumaNode& node : limits.numa_nodes) {
    line(fmt::format("NUMA node {}", node.id), node.bytes,
         node.cpus.empty() ? "no CPUs" : fmt::format("CPUs {}", node.cpus));
  }
  return text;
}

std::string MemoryPlan::to_line() const {
  return fmt::format(
      "memory: {} = weights {} + KV cache {} ({} tokens) + activations {} + workspace {}{}{}{}, of "
      "{}{}",
      mebibytes(total()), mebibytes(weight_bytes), mebibytes(kv_cache_bytes), kv_tokens(),
      mebibytes(activation_bytes), mebibytes(workspace_bytes),
      draft_bytes > 0 ? " + drafts " + mebibytes(draft_bytes) : "",
      offload_blocks > 0
          ? fmt::format(" + offloading {} ({} tokens in files of {})", mebibytes(offload_bytes),
                        offload_blocks * block_size, mebibytes(offload_disk_bytes))
          : "",
      limits.gpu.empty() ? " + tables " + mebibytes(table_bytes) : "", mebibytes(budget),
      host_part.empty()
          ? ""
          : fmt::format("; the processor's part: {} = weights {} + KV cache {} + activations {} + "
                        "workspace {}",
                        mebibytes(host_part.total()), mebibytes(host_part.weight_bytes),
                        mebibytes(host_part.kv_cache_bytes), mebibytes(host_part.activation_bytes),
                        mebibytes(host_part.workspace_bytes)));
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
          {"host_part", host_part.empty()
                            ? json::value()
                            : json::object{{"num_layers", host_part.num_layers},
                                           {"num_expert_layers", host_part.num_expert_layers},
                                           {"weight_bytes", host_part.weight_bytes},
                                           {"kv_cache_bytes", host_part.kv_cache_bytes},
                                           {"activation_bytes", host_part.activation_bytes},
                                           {"workspace_bytes", host_part.workspace_bytes},
                                           {"total_bytes", host_part.total()},
                                           {"budget_bytes", host_budget}}},
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
  plan.host_part = input.host_part;
  plan.block_size = input.block_size;
  plan.kv_groups = input.kv_groups;
  plan.sequence_pages = input.sequence_pages;
  plan.max_model_len = input.max_model_len;
  plan.limits = limits;
  // Tables are in memory already: they are not part of what is free.
  plan.budget = budget_of(limits, utilization, input.table_bytes);
  if (!plan.host_part.empty()) {
    plan.host_budget = budget_of(input.host_limits, utilization, input.table_bytes);
    QUIRE_RETURN_IF_ERROR(check_host(plan));
  }

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
  const std::uint64_t host_left =
      plan.host_budget - (plan.host_part.empty() ? 0 : plan.host_bytes + plan.host_part.total());
  const PoolSize pool = pool_size(input, plan.budget - fixed, host_left, !limits.gpu.empty());
  plan.num_blocks = pool.blocks;
  plan.max_pinned_blocks =
      max_pinned_pages(pool.blocks, input.prompt_pages, input.max_pinned_share);
  if (pool.blocks < input.prompt_pages) {
    return Status::resource_exhausted(
        fmt::format("a KV cache of {} holds {}; one sequence of --max-model-len {} needs {} {}, {}",
                    mebibytes(pool.bytes), blocks_text(plan), input.max_model_len,
                    input.prompt_pages, plan.pages_per_block() == 1 ? "blocks" : "pages",
                    mebibytes(static_cast<std::uint64_t>(input.prompt_pages) *
                              (input.kv_page_bytes + input.host_page_bytes))),
        input.kv_cache_memory_bytes ? "raise --kv-cache-memory-bytes or lower --max-model-len"
                                    : "lower --max-model-len, or set --kv-cache-memory-bytes");
  }
  plan.kv_cache_bytes = static_cast<std::uint64_t>(pool.blocks) * input.kv_page_bytes;
  plan.host_part.kv_cache_bytes = static_cast<std::uint64_t>(pool.blocks) * input.host_page_bytes;
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
  QUIRE_RETURN_IF_ERROR(check_host(plan));
  return plan;
}

}  // namespace quire
