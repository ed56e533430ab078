// Prompts whose blocks stay in the prefix cache: who may ask for it, and when it happens.
#include <algorithm>

#include <fmt/format.h>

#include "core/scheduler.h"

namespace quire {

std::int32_t Scheduler::blocks_to_pin(std::int64_t num_prompt_tokens) const {
  return static_cast<std::int32_t>(num_prompt_tokens / config_.block_size);
}

// What is about to be pinned counts, so that there is room when the prompt is computed.
std::optional<Scheduler::Refusal> Scheduler::pin_refusal(const AddRequest& request) const {
  const auto refuse = [&](Status status) {
    return Refusal{RejectCause::kPinnedShare, std::move(status)};
  };
  const std::string who = fmt::format("request {}", request.request_id);
  if (!config_.enable_prefix_caching) {
    return refuse(Status::invalid_argument(who + ": nothing is pinned without a prefix cache"));
  }
  const SamplingParams& params = *request.sampling_params;
  if (request.pooling != Pooling::kNone || params.n != 1 || params.is_beam_search()) {
    return refuse(Status::invalid_argument(
        who + ": a prompt is pinned by a request of one output, neither pooled nor of beams"));
  }
  const std::int32_t num_blocks = blocks_to_pin(std::ssize(request.prompt_token_ids));
  const std::int64_t num_pages = kv_.prefix_pages(num_blocks);
  if (num_pages < 1) {
    return refuse(Status::invalid_argument(
        fmt::format("{}: a prompt of {} tokens has no block to pin; a block has {} tokens", who,
                    request.prompt_token_ids.size(), config_.block_size),
        "pin a longer prompt"));
  }
  const bool taken = request.pin > kMaxPinId || pinned_.find(request.pin) != nullptr ||
                     std::ranges::any_of(requests_, [&](const auto& each) {
                       return each.second->pin() == request.pin;
                     });
  if (taken) {
    return Refusal{RejectCause::kDuplicateId,
                   Status::invalid_argument(
                       fmt::format("{}: there is a pin {}, or it cannot be", who, request.pin))};
  }
  const std::int64_t num_pinned = num_pages_to_be_pinned();
  if (num_pinned + num_pages <= config_.max_pinned_blocks) return std::nullopt;
  return refuse(Status::resource_exhausted(
      fmt::format("{}: it would pin {} blocks of the KV cache; {} of the {} that may be pinned are",
                  who, num_pages, num_pinned, config_.max_pinned_blocks),
      "unpin another, pin a shorter prompt, or raise the share that may be pinned"));
}

// Of the pins in place, and of those about to be.
std::int64_t Scheduler::num_pages_to_be_pinned() const {
  std::int64_t num_pages = pinned_.num_pages();
  for (const auto& [id, request] : requests_) {
    if (request->pin() == 0) continue;
    num_pages += kv_.prefix_pages(blocks_to_pin(request->num_prompt_tokens()));
  }
  return num_pages;
}

// It has ended by itself, and still holds its blocks.
void Scheduler::pin(const Request& request) {
  kv_.put_back(request.id());
  pinned_.add(request.pin(), request.token_ids(), blocks_to_pin(request.num_prompt_tokens()),
              request.cache_scope(), kv_);
}

bool Scheduler::unpin(PinId pin_id) {
  waits_for_fetch_ = false;  // there is more room
  return pinned_.remove(pin_id, kv_);
}

void Scheduler::reset_prefix_cache() {
  pinned_.clear(kv_);
  kv_.forget_cached();
}

// What is pinned, and what is about to be, stays within the limit.
Status Scheduler::check_pins() const {
  QUIRE_RETURN_IF_ERROR(pinned_.check_invariants(kv_));
  for (const auto& [id, request] : requests_) {
    if (request->pin() == 0 || pinned_.find(request->pin()) == nullptr) continue;
    return Status::internal(fmt::format("request {} is to pin what is pinned", id));
  }
  const std::int64_t num_pages = num_pages_to_be_pinned();
  if (num_pages <= config_.max_pinned_blocks) return {};
  return Status::internal(fmt::format("{} blocks are pinned or about to be, at most {} may",
                                      num_pages, config_.max_pinned_blocks));
}

}  // namespace quire
