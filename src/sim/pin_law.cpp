#include "sim/pin_law.h"

#include <fmt/format.h>

namespace quire {

void PinLaw::ask(AddRequest& request) {
  if (scheduler_.config().max_pinned_blocks > 0 && random_.chance(0.4)) {
    request.pin = request.request_id;
  }
}

void PinLaw::arrive(const AddRequest& request) {
  if (request.pin == 0) return;
  const auto size = static_cast<std::size_t>(scheduler_.config().block_size);
  const auto& prompt = request.prompt_token_ids;
  const auto end = prompt.begin() + static_cast<std::ptrdiff_t>(prompt.size() / size * size);
  asked_[request.pin] = {.scope = request.cache_scope, .tokens = {prompt.begin(), end}};
}

void PinLaw::end(const Request& request) {
  if (request.pin() == 0) return;
  const bool pinned = scheduler_.pinned().find(request.pin()) != nullptr;
  const bool aborted = request.finish_reason() == FinishReason::kAbort;
  coverage_.pinned += pinned ? 1 : 0;
  coverage_.pins_missed += pinned || aborted ? 0 : 1;
  asked_.at(request.pin()).ended = true;
  if (!pinned) asked_.erase(request.pin());
}

void PinLaw::let_go() {
  const auto pins = scheduler_.pinned().all();
  if (pins.empty() || !random_.chance(0.05)) return;
  if (random_.chance(0.1)) {
    for (const PinnedPrefix& pin : pins) asked_.erase(pin.id);
    return scheduler_.reset_prefix_cache();
  }
  const std::int64_t chosen = random_.between(0, std::ssize(pins) - 1);
  const PinnedPrefix pin = pins[static_cast<std::size_t>(chosen)];
  coverage_.pin_hits += pin.num_hits;
  asked_.erase(pin.id);
  scheduler_.unpin(pin.id);
}

void PinLaw::let_go_of_all() {
  while (!scheduler_.pinned().all().empty()) {
    const PinnedPrefix pin = scheduler_.pinned().all().front();
    coverage_.pin_hits += pin.num_hits;
    asked_.erase(pin.id);
    scheduler_.unpin(pin.id);
  }
}

std::string PinLaw::check() const {
  std::size_t num_ended = 0;
  for (const auto& [id, asked] : asked_) {
    if (!asked.ended) continue;
    ++num_ended;
    const auto num_tokens = static_cast<std::int32_t>(asked.tokens.size());
    const auto found =
        scheduler_.kv_cache().match_prefix(asked.tokens, num_tokens, asked.scope).num_tokens;
    if (found != num_tokens) {
      return fmt::format("of the {} tokens of pin {}, {} are found", num_tokens, id, found);
    }
  }
  if (num_ended == scheduler_.pinned().all().size()) return {};
  return fmt::format("{} prefixes are pinned, {} were to be", scheduler_.pinned().all().size(),
                     num_ended);
}

}  // namespace quire
