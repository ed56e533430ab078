// Limits on what is accepted: which settings make sense, and which requests a scheduler accepts.
#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "core/scheduler.h"

namespace quire {

Status SchedulerConfig::validate() const {
  struct Bound {
    std::string_view name;
    std::int32_t value;
    std::int32_t least;
  };
  // A sequence has at least one token of prompt and one of output.
  for (const Bound& bound :
       {Bound{"max_num_seqs", max_num_seqs, 1},
        Bound{"max_num_batched_tokens", max_num_batched_tokens, 1},
        Bound{"max_model_len", max_model_len, 2}, Bound{"block_size", block_size, 1},
        Bound{"num_blocks", num_blocks, 1}, Bound{"max_queued", max_queued, 1},
        Bound{"max_steps_in_flight", max_steps_in_flight, 1},
        Bound{"max_overtaken", max_overtaken, 0}, Bound{"max_draft_paths", max_draft_paths, 1},
        Bound{"min_prefix_in_flight", min_prefix_in_flight, 1},
        Bound{"max_pinned_blocks", max_pinned_blocks, 0},
        Bound{"max_waiting_tokens", admission.max_waiting_tokens, 1}}) {
    if (bound.value < bound.least) {
      return Status::invalid_argument(
          fmt::format("{}: {} is not an integer >= {}", bound.name, bound.value, bound.least));
    }
  }
  if (max_draft_paths > kMaxDrafts) {
    return Status::invalid_argument(
        fmt::format("max_draft_paths: {} is more than {}", max_draft_paths, kMaxDrafts));
  }
  if (!(admission.waiting_served_ratio >= 0 &&
        admission.waiting_served_ratio <= kMaxWaitingServedRatio)) {
    return Status::invalid_argument(fmt::format("waiting_served_ratio: {} is not in 0 to {}",
                                                admission.waiting_served_ratio,
                                                kMaxWaitingServedRatio));
  }
  if (admission.limited() && batching != Batching::kContinuous) {
    return Status::config("waiting_served_ratio: nobody joins a batch whose members are fixed",
                          "use continuous batching, or leave the ratio out");
  }
  if (kv_tier && (!enable_prefix_caching || kv_groups != std::vector{KvGroup{}})) {
    return Status::config(
        "kv_tier: a lower tier needs prefix caching, and a model whose layers all keep the keys "
        "and values of all tokens");
  }
  if (max_pinned_blocks >= num_blocks || (max_pinned_blocks > 0 && !enable_prefix_caching)) {
    return Status::config(fmt::format(
        "max_pinned_blocks: {} of {} blocks; some must be left, and there must be a prefix cache",
        max_pinned_blocks, num_blocks));
  }
  constexpr std::size_t kMaxGroups = 64;
  constexpr std::int32_t kMaxPagesPerBlock = 4096;
  if (kv_groups.empty() || kv_groups.size() > kMaxGroups) {
    return Status::invalid_argument(
        fmt::format("kv_groups: there are {}, expected 1 to {}", kv_groups.size(), kMaxGroups));
  }
  for (const KvGroup& group : kv_groups) {
    if (group.window < 0 || group.pages_per_block < 1 ||
        group.pages_per_block > kMaxPagesPerBlock) {
      return Status::invalid_argument(fmt::format(
          "kv_groups: a window of {} tokens and {} pages a block; expected at least 0 and 1 to {}",
          group.window, group.pages_per_block, kMaxPagesPerBlock));
    }
    if (group.state && group.window != KvGroup::kStateWindow) {
      return Status::invalid_argument(
          fmt::format("kv_groups: a state with a window of {} tokens; expected {}", group.window,
                      KvGroup::kStateWindow));
    }
  }
  if (!enable_chunked_prefill && max_num_batched_tokens < max_model_len) {
    return Status::config(
        fmt::format(
            "max_num_batched_tokens {} is less than max_model_len {}, and prompts may not be "
            "computed in chunks",
            max_num_batched_tokens, max_model_len),
        "raise max_num_batched_tokens or enable chunked prefill");
  }
  return {};
}

std::string_view reject_cause_name(RejectCause cause) {
  switch (cause) {
    case RejectCause::kEmptyPrompt:
      return "empty_prompt";
    case RejectCause::kDuplicateId:
      return "duplicate_id";
    case RejectCause::kPromptTooLong:
      return "prompt_too_long";
    case RejectCause::kNeverFits:
      return "never_fits";
    case RejectCause::kQueueFull:
      return "queue_full";
    case RejectCause::kPinnedShare:
      return "pinned_share";
  }
  return "unknown";
}

namespace {

// What the pool holds besides what may be pinned, where that is a number of tokens; else its pages
// and those that are needed.
std::string pool_text(const SchedulerConfig& config, std::int64_t num_pages) {
  const std::int64_t num_blocks = config.num_blocks - config.max_pinned_blocks;
  const std::string pins =
      config.max_pinned_blocks == 0
          ? ""
          : fmt::format(" besides the {} for pinned prefixes", config.max_pinned_blocks);
  if (config.kv_groups == std::vector{KvGroup{}}) {
    return fmt::format("holds {} tokens ({} blocks of {}{})", num_blocks * config.block_size,
                       num_blocks, config.block_size, pins);
  }
  return fmt::format("has {} pages{} where they need {}", num_blocks, pins, num_pages);
}

std::string beams_text(const SamplingParams& params) {
  return params.is_beam_search() ? fmt::format(" of {} beams", params.beam_width) : "";
}

}  // namespace

// All beams are in a step together.
std::optional<Scheduler::Refusal> Scheduler::beam_refusal(const AddRequest& request) const {
  const std::int64_t width = request.sampling_params->beam_width;
  const auto refuse = [&](std::string_view setting, std::int32_t most) {
    return Refusal{RejectCause::kNeverFits,
                   Status::resource_exhausted(
                       fmt::format("request {}: {} beams are in a step together, {} is {}",
                                   request.request_id, width, setting, most),
                       fmt::format("lower beam_width or raise {}", setting))};
  };
  if (width > config_.max_num_seqs) return refuse("max_num_seqs", config_.max_num_seqs);
  if (width > config_.max_num_batched_tokens) {
    return refuse("max_num_batched_tokens", config_.max_num_batched_tokens);
  }
  return std::nullopt;
}

std::optional<Scheduler::Refusal> Scheduler::admission_refusal(const AddRequest& request) const {
  const std::string who = fmt::format("request {}", request.request_id);
  if (request.prompt_token_ids.empty()) {
    return Refusal{RejectCause::kEmptyPrompt,
                   Status::invalid_argument(who + ": the prompt has no tokens",
                                            "give at least one token, such as the start token")};
  }
  const SamplingParams& params = *request.sampling_params;
  const std::int64_t num_outputs = params.is_beam_search() ? 1 : params.n;
  for (std::int64_t i = 0; i < params.num_ids(); ++i) {
    const RequestId id = request.request_id + static_cast<RequestId>(i);
    // A retained row has a table, and so has a fetch.
    const bool is_new = !requests_.contains(id) && kv_.find(id) == nullptr;
    if (is_new && id < KvCacheManager::fetch_table(0)) continue;
    return Refusal{RejectCause::kDuplicateId,
                   Status::invalid_argument(who + ": a request of this id is not finished yet")};
  }
  const std::int64_t num_prompt_tokens = std::ssize(request.prompt_token_ids);
  const bool pooled = request.pooling != Pooling::kNone;
  if (pooled && num_prompt_tokens > config_.max_model_len) {
    return Refusal{
        RejectCause::kPromptTooLong,
        Status::invalid_argument(fmt::format("{}: the prompt has {} tokens, max_model_len is {}",
                                             who, num_prompt_tokens, config_.max_model_len),
                                 "shorten the prompt or raise max_model_len")};
  }
  if (!pooled && num_prompt_tokens >= config_.max_model_len) {
    return Refusal{
        RejectCause::kPromptTooLong,
        Status::invalid_argument(
            fmt::format("{}: the prompt has {} tokens, which leaves no room for output within "
                        "max_model_len {}",
                        who, num_prompt_tokens, config_.max_model_len),
            "shorten the prompt or raise max_model_len")};
  }
  const std::int64_t num_output_tokens =
      pooled ? 0
             : std::min<std::int64_t>(request.sampling_params->max_tokens,
                                      config_.max_model_len - num_prompt_tokens);
  // The last output token is never computed.
  const std::int64_t num_computed_at_most =
      num_prompt_tokens + std::max<std::int64_t>(num_output_tokens - 1, 0);
  std::int64_t num_pages = kv_.max_pages(num_computed_at_most, config_.max_tokens_in_flight());
  if (params.is_beam_search()) {
    if (auto refusal = beam_refusal(request)) return refusal;
    num_pages +=
        (params.beam_width - 1) * kv_.max_branch_pages(num_prompt_tokens, num_computed_at_most,
                                                       config_.max_tokens_in_flight());
  }
  if (num_pages > config_.num_blocks - config_.max_pinned_blocks) {
    return Refusal{
        RejectCause::kNeverFits,
        Status::resource_exhausted(
            fmt::format("{}: {} prompt tokens and up to {} output tokens{} do not fit into the KV "
                        "cache, which {}",
                        who, num_prompt_tokens, num_output_tokens, beams_text(params),
                        pool_text(config_, num_pages)),
            "lower max_tokens, shorten the prompt or give the KV cache more memory")};
  }
  const std::int64_t num_waiting = std::ssize(waiting_) + std::ssize(fetching_);
  if (num_waiting + num_outputs > config_.max_queued) {
    return Refusal{
        RejectCause::kQueueFull,
        Status::resource_exhausted(fmt::format("{}: {} requests are waiting, and at most {} may",
                                               who, num_waiting, config_.max_queued),
                                   "try again later or raise max_queued")};
  }
  return request.pin == 0 ? std::nullopt : pin_refusal(request);
}

}  // namespace quire
