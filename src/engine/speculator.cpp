#include "engine/speculator.h"

#include <algorithm>

namespace quire {

static_assert(SpeculativeConfig::kMaxTokens == kMaxDrafts);

Speculator::Speculator(const SpeculativeConfig& config, std::int64_t max_num_seqs,
                       std::int64_t max_model_len)
    : config_(config), drafter_(make_drafter(config, max_num_seqs, max_model_len)) {
  offers_.reserve(static_cast<std::size_t>(max_num_seqs));
  offered_.reserve(static_cast<std::size_t>(max_num_seqs));
}

void Speculator::begin(RequestId request_id, DraftCount count) {
  if (count == 0) return;
  followed_[request_id].count = count;
}

void Speculator::end(RequestId request_id, std::span<const TokenId> output) {
  const auto found = followed_.find(request_id);
  if (found == followed_.end()) return;
  if (found->second.begun) drafter_->end(request_id, output);
  followed_.erase(found);
}

// Only what runs takes room.
Speculator::Followed* Speculator::follow(const Request& request) {
  const auto found = followed_.find(request.id());
  if (found == followed_.end() || found->second.refused || request.is_pooled()) return nullptr;
  Followed& followed = found->second;
  if (!followed.begun) {
    const auto most = static_cast<std::size_t>(request.max_computed_tokens() + 1);
    followed.begun = drafter_->begin(request.id(), most);
    followed.refused = !followed.begun;
    if (followed.refused) return nullptr;
  }
  return &followed;
}

void Speculator::read_ahead(const Scheduler& scheduler) {
  for (const Request* request : scheduler.running()) {
    if (follow(*request) != nullptr) drafter_->read(request->id(), request->token_ids());
  }
}

// What became of the open guess, whether it was computed or not.
void Speculator::learn(const Request& request, Followed& followed) {
  const std::vector<TokenId>& guess = followed.guess.tokens;
  if (guess.empty()) return;
  const auto tokens = std::span(request.token_ids()).subspan(followed.guessed_at);
  bool right = true;
  while (right && followed.num_learned < std::min(tokens.size(), guess.size())) {
    const std::size_t place = followed.num_learned++;
    right = tokens[place] == guess[place];
    followed.acceptance.observe(Acceptance::class_of(followed.guess.match), place, right);
    governor_.observe(followed.guess.match, place, right);
  }
  if (!right || followed.num_learned == guess.size()) followed.guess.tokens.clear();
}

// This step's guess; no further than the output may go.
void Speculator::guess_next(const Request& request, Followed& followed) {
  learn(request, followed);
  const std::int32_t room = request.max_computed_tokens() - request.num_tokens();
  drafter_->draft(request.id(), request.token_ids(), std::min(room, config_.num_speculative_tokens),
                  followed.draft);
  if (!followed.guess.tokens.empty()) return;
  followed.guess = followed.draft;
  followed.guessed_at = request.token_ids().size();
  followed.num_learned = 0;
}

void Speculator::propose(const Scheduler& scheduler, const Give& give) {
  offers_.clear();
  offered_.clear();
  fixed_ = false;
  std::int64_t num_rows = 0;
  std::int64_t num_keys = 0;
  const auto replace = [&](const Request& request, std::span<const TokenId> drafts) {
    // Those of an earlier step that were not computed are taken back.
    if (!drafts.empty() || !request.drafts().empty()) give(request.id(), drafts);
  };
  for (const Request* request : scheduler.running()) {
    const bool row = request->num_pending_tokens() == 1;
    num_rows += row ? 1 : 0;
    num_keys += row ? request->num_tokens() : 0;
    Followed* const followed = row && request->num_placeholders() == 0 ? follow(*request) : nullptr;
    if (followed == nullptr) {
      replace(*request, {});
      continue;
    }
    guess_next(*request, *followed);
    const std::span<const TokenId> tokens = followed->draft.tokens;
    if (followed->count) {
      const auto count = std::min(tokens.size(), static_cast<std::size_t>(*followed->count));
      fixed_ = fixed_ || count > 0;
      num_rows += static_cast<std::int64_t>(count);
      replace(*request, tokens.first(count));
      continue;
    }
    offers_.push_back({.acceptance = &followed->acceptance,
                       .match = followed->draft.match,
                       .num_tokens = static_cast<std::int32_t>(tokens.size())});
    offered_.push_back({request, followed});
  }
  if (offers_.empty()) return;
  if (!timed_) {
    for (const Offered& each : offered_) replace(*each.request, {});
    return;
  }
  keys_of_row_ = static_cast<double>(num_keys) / static_cast<double>(num_rows);
  governor_.choose(offers_, num_rows, [this](std::int64_t rows) { return time_of(rows); });
  for (std::size_t i = 0; i < offers_.size(); ++i) {
    const std::span<const TokenId> tokens = offered_[i].followed->draft.tokens;
    replace(*offered_[i].request, tokens.first(static_cast<std::size_t>(offers_[i].num_chosen)));
  }
}

double Speculator::time_of(std::int64_t num_rows) const {
  const auto keys = static_cast<std::int64_t>(keys_of_row_ * static_cast<double>(num_rows));
  const double line = times_.expected({.num_rows = num_rows, .row_keys = keys});
  return std::max(line * row_times_.ratio(num_rows), 1.0);
}

void Speculator::took(const SchedulerOutput& plan, const ModelRunnerOutput& result, Duration time) {
  const StepWork work = work_of(plan);
  const double expected = times_.expected(work);
  times_.measured(work, time);
  if (work.prompt_tokens > 0 || work.num_rows == 0 || expected <= 0) return;
  timed_ = true;
  row_times_.observe(work.num_rows, expected, static_cast<double>(time.count()));
  if (fixed_) return;
  const auto num_drafts = static_cast<std::int64_t>(plan.draft_token_ids.size());
  const std::int64_t num_rows = work.num_rows - num_drafts;
  // Each of the rows gave one token, and one more for each draft that was right.
  const std::int64_t num_accepted = std::ssize(result.sampled) - num_rows;
  governor_.account(num_rows, num_drafts, num_accepted,
                    [this](std::int64_t rows) { return time_of(rows); });
}

}  // namespace quire
