#include "engine/constraints/running_constraints.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include "engine/constraints/ensure_close.h"
#include "engine/constraints/forced_tokens.h"

namespace quire {
namespace {

constexpr std::size_t kWordBits = 32;

void set_bit(std::span<std::uint32_t> words, TokenId token) {
  const auto index = static_cast<std::size_t>(token);
  words[index / kWordBits] |= std::uint32_t{1} << (index % kWordBits);
}
void clear_bit(std::span<std::uint32_t> words, TokenId token) {
  const auto index = static_cast<std::size_t>(token);
  words[index / kWordBits] &= ~(std::uint32_t{1} << (index % kWordBits));
}

bool one_bit_is_set(std::span<const std::uint32_t> words) {
  bool any = false;
  for (const std::uint32_t word : words) {
    if (word == 0) continue;
    if (any || !std::has_single_bit(word)) return false;
    any = true;
  }
  return any;
}

std::size_t words_of(const GrammarMatcher& matcher) {
  return matcher.grammar().vocabulary().mask_words();
}

}  // namespace

void RunningConstraints::add(const AddRequest& request, const RequestConstraint& constraint) {
  const SamplingParams& params = *request.sampling_params;
  Output first(request, constraint);
  const GrammarVocabulary& vocabulary = constraint.grammar->vocabulary();
  // Others are text, and end an output as a stop string does.
  for (const TokenId id : params.stop_token_ids) {
    if (tokenizer_.is_special(id) && !vocabulary.is_end(id)) first.stop_ids.push_back(id);
  }
  if (!params.allowed_token_ids.empty()) {
    first.allowed.resize(vocabulary.mask_words());
    for (const TokenId id : params.allowed_token_ids) set_bit(first.allowed, id);
  }
  for (std::int64_t i = 1; i < params.n; ++i) {
    outputs_.emplace(request.request_id + static_cast<RequestId>(i), first);
  }
  outputs_.emplace(request.request_id, std::move(first));
}

void RunningConstraints::fill(const SchedulerOutput& plan, StepMasks& masks) {
  masks.masks.clear();
  masks.stuck.clear();
  masks.forced.clear();
  if (outputs_.empty()) return;
  std::size_t num_words = 0;
  for (const ScheduledRequest& row : plan.scheduled) {
    const auto found = outputs_.find(row.request_id);
    if (row.use != RowUse::kTokens || found == outputs_.end()) continue;
    num_words += (static_cast<std::size_t>(row.num_drafts) + 1) * words_of(found->second.matcher);
  }
  masks.words.resize(num_words);
  masks.num_words = 0;
  for (const ScheduledRequest& row : plan.scheduled) {
    const auto found = outputs_.find(row.request_id);
    if (row.use != RowUse::kTokens || found == outputs_.end()) continue;
    const Instant start = clock_.now();
    const std::size_t before = masks.masks.size();
    fill_rows(found->second, plan, row, masks);
    ConstraintWork& work = *found->second.work;
    work.num_masks.fetch_add(static_cast<std::int64_t>(masks.masks.size() - before),
                             std::memory_order_relaxed);
    work.mask_ns.fetch_add((clock_.now() - start).count(), std::memory_order_relaxed);
  }
}

// A draft that the constraint does not allow is not what its row gives: nothing behind it counts,
// and nothing behind a token that ends the output.
void RunningConstraints::fill_rows(Output& output, const SchedulerOutput& plan,
                                   const ScheduledRequest& row, StepMasks& masks) {
  const std::span<const TokenId> drafts = plan.drafts_of(row).tokens();  // a chain
  const std::size_t size = words_of(output.matcher);
  std::size_t accepted = 0;
  ReasoningWatch watch = output.watch;
  for (std::int32_t draft = 0; draft <= row.num_drafts; ++draft) {
    const auto words = std::span(masks.words).subspan(masks.num_words, size);
    Status status = fill_mask(output, watch, output.num_tokens + draft, words);
    if (!status.ok()) {
      masks.stuck.push_back({row.request_id, draft, std::move(status)});
      break;
    }
    masks.num_words += size;
    masks.masks.push_back({.request_id = row.request_id, .draft = draft, .words = words});
    if (output.params->return_forced_tokens && one_bit_is_set(words)) {
      masks.forced.push_back({row.request_id, draft});
    }
    if (draft == row.num_drafts) break;
    const TokenId guess = drafts[static_cast<std::size_t>(draft)];
    if (!output.matcher.accept(guess)) break;
    watch.take(guess, tokenizer_);
    ++accepted;
  }
  output.matcher.rollback(accepted);
}

std::optional<TokenId> RunningConstraints::forced_next(Output& output, const ReasoningWatch& watch,
                                                       std::int64_t num_tokens) const {
  const auto can_come = [&](TokenId token) {
    if (!output.close_within) return output.matcher.allows(token);
    return can_close_behind(output.matcher, token, *output.close_within - num_tokens);
  };
  // The end of reasoning, but not within a character.
  const auto end = watch.forced();
  if (end && can_come(*end)) return end;
  const auto forced = forced_token(output.matcher, tokenizer_);
  return forced && can_come(*forced) ? forced : std::nullopt;
}

Status RunningConstraints::fill_mask(Output& output, const ReasoningWatch& watch,
                                     std::int64_t num_tokens,
                                     std::span<std::uint32_t> words) const {
  if (const auto forced = forced_next(output, watch, num_tokens)) {
    std::ranges::fill(words, 0);
    set_bit(words, *forced);
    if (narrow(output, num_tokens, words)) return {};
  }
  Status filled = output.matcher.fill_mask(words);
  if (filled.ok() && output.close_within) {
    filled = keep_closable(output.matcher, *output.close_within - num_tokens, words);
  }
  const std::string& field = output.params->structured_outputs->field;
  if (!filled.ok()) {
    return Status::invalid_argument(
        fmt::format("{}: after {} tokens: {}", field, num_tokens, filled.message()),
        filled.remedy());
  }
  if (narrow(output, num_tokens, words)) return {};
  return nothing_left(output, num_tokens);
}

bool RunningConstraints::narrow(Output& output, std::int64_t num_tokens,
                                std::span<std::uint32_t> words) {
  const SamplingParams& params = *output.params;
  if (num_tokens >= params.min_tokens) {
    if (!output.stop_ids.empty() && output.matcher.can_end()) {
      for (const TokenId id : output.stop_ids) set_bit(words, id);
    }
  } else {
    for (const TokenId id : params.stop_token_ids) clear_bit(words, id);
    if (!params.ignore_eos) {
      for (const TokenId id : output.matcher.grammar().vocabulary().end_ids()) {
        clear_bit(words, id);
      }
    }
  }
  for (std::size_t i = 0; i < output.allowed.size(); ++i) words[i] &= output.allowed[i];
  return std::ranges::any_of(words, [](std::uint32_t word) { return word != 0; });
}

void RunningConstraints::forced_tokens(RequestId output_id, std::vector<TokenId>& tokens) {
  tokens.clear();
  const auto found = outputs_.find(output_id);
  if (!jump_forward_ || found == outputs_.end()) return;
  GrammarMatcher& matcher = found->second.matcher;
  while (tokens.size() < kMaxForcedTokens) {
    const auto token = forced_token(matcher, tokenizer_);
    if (!token || !matcher.accept(*token)) break;
    tokens.push_back(*token);
  }
  matcher.rollback(tokens.size());
}

Status RunningConstraints::nothing_left(Output& output, std::int64_t num_tokens) {
  const SamplingParams& params = *output.params;
  const std::string& field = params.structured_outputs->field;
  const bool complete = output.matcher.can_end();
  if (complete && num_tokens < params.min_tokens) {
    return Status::invalid_argument(
        fmt::format("{}: the text is complete after {} tokens and cannot go on, and min_tokens is "
                    "{}",
                    field, num_tokens, params.min_tokens),
        "leave min_tokens out");
  }
  if (!output.allowed.empty()) {
    return Status::invalid_argument(
        fmt::format("{}: after {} tokens none of allowed_token_ids can follow", field, num_tokens),
        "allow the tokens that the text needs, and those that end it");
  }
  if (complete) {
    return Status::invalid_argument(
        fmt::format("{}: the text is complete after {} tokens, and the model has no token that "
                    "ends it",
                    field, num_tokens),
        "give one as stop_token_ids");
  }
  return Status::invalid_argument(
      fmt::format("{}: after {} tokens no token of the model can follow", field, num_tokens),
      "the constraint asks for text that the model's vocabulary cannot spell");
}

bool RunningConstraints::take(RequestId output_id, std::span<const SampledToken> tokens) {
  const auto found = outputs_.find(output_id);
  if (found == outputs_.end()) return true;
  Output& output = found->second;
  for (const SampledToken& token : tokens) {
    ++output.num_tokens;
    const bool stops = std::ranges::find(output.stop_ids, token.token_id) != output.stop_ids.end();
    if (!stops && !output.matcher.accept(token.token_id)) return false;
    output.watch.take(token.token_id, tokenizer_);
  }
  return true;
}

RunningConstraints::Outputs RunningConstraints::siblings(RequestId output_id) const {
  const auto found = outputs_.find(output_id);
  if (found == outputs_.end()) return {.first = output_id, .count = 1};
  return {.first = found->second.request_id, .count = found->second.params->n};
}

}  // namespace quire
