#include "engine/speculator.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace quire {

static_assert(SpeculativeConfig::kMaxTokens == kMaxDrafts);

Speculator::Speculator(std::unique_ptr<Drafter> drafter, std::int32_t max_drafts,
                       std::int64_t max_num_seqs, const SteadyClock& clock)
    : drafter_(std::move(drafter)), max_drafts_(max_drafts), clock_(clock) {
  candidates_.reserve(static_cast<std::size_t>(max_num_seqs));
  offers_.reserve(static_cast<std::size_t>(max_num_seqs));
  wishes_.reserve(static_cast<std::size_t>(max_num_seqs));
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
    followed.begun =
        drafter_->begin({.id = request.id(),
                         .max_tokens = static_cast<std::size_t>(request.max_computed_tokens() + 1),
                         .num_prompt_tokens = request.num_prompt_tokens(),
                         .sample_index = request.sample_index(),
                         .sampling_params = request.sampling_params()});
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

// Those whose last token is known and is computed in the next step; others lose the drafts that
// they have.
void Speculator::collect(const Scheduler& scheduler, const Give& give) {
  candidates_.clear();
  num_rows_ = 0;
  std::int64_t num_keys = 0;
  for (const Request* request : scheduler.running()) {
    const bool row = request->num_pending_tokens() == 1;
    const std::int64_t num_rows = row ? std::ssize(request->row_ids()) : 0;
    num_rows_ += num_rows;
    num_keys += num_rows * request->num_tokens();
    Followed* const followed = row && request->num_placeholders() == 0 ? follow(*request) : nullptr;
    if (followed == nullptr) {
      if (!request->drafts().empty()) give(request->id(), {});
      continue;
    }
    learn(*request, *followed);
    // No further than the output may go.
    const std::int32_t room = request->max_computed_tokens() - request->num_tokens();
    const std::int32_t most = std::min(room, max_drafts_);
    const bool asked = followed->count.has_value();
    candidates_.push_back({request, followed, asked ? std::min(most, *followed->count) : most});
  }
  keys_of_row_ =
      num_rows_ == 0 ? 0 : static_cast<double>(num_keys) / static_cast<double>(num_rows_);
}

// As many as each candidate may have.
void Speculator::guess() {
  wishes_.clear();
  for (const Candidate& each : candidates_) {
    each.followed->draft.tokens.clear();
    if (each.num_drafts <= 0) continue;
    wishes_.push_back({.request_id = each.request->id(),
                       .tokens = each.request->token_ids(),
                       .most = each.num_drafts,
                       .draft = &each.followed->draft});
  }
  const Instant start = clock_.now();
  const DraftWork work = drafter_->draft(wishes_);
  guessing_ = work == DraftWork::kNone ? Duration::zero() : clock_.now() - start;
  read_prompts_ = work == DraftWork::kPrompts;
  std::size_t longest = 0;
  for (const Candidate& each : candidates_) {
    Followed& followed = *each.followed;
    longest = std::max(longest, followed.draft.tokens.size());
    if (!followed.guess.tokens.empty()) continue;
    followed.guess = followed.draft;
    followed.guessed_at = each.request->token_ids().size();
    followed.num_learned = 0;
  }
  if (work != DraftWork::kSteps || longest == 0) return;
  constexpr std::int64_t kMemory = 16;  // steps
  num_guess_times_ = std::min(num_guess_times_ + 1, kMemory);
  const double time = static_cast<double>(guessing_.count()) / static_cast<double>(longest);
  guess_time_ += (time - guess_time_) / static_cast<double>(num_guess_times_);
}

// How many of its guesses each candidate gets, or shall have.
void Speculator::choose() {
  offers_.clear();
  const bool computes = drafter_->computes();
  for (Candidate& each : candidates_) {
    const Draft& draft = each.followed->draft;
    if (!computes) each.num_drafts = static_cast<std::int32_t>(draft.tokens.size());
    if (each.followed->count) {
      fixed_ = fixed_ || each.num_drafts > 0;
      num_rows_ += each.num_drafts;
    } else {
      offers_.push_back({.acceptance = &each.followed->acceptance,
                         .match = computes ? 0 : draft.match,
                         .num_tokens = each.num_drafts});
    }
  }
  if (offers_.empty()) return;
  if (timed_) {
    governor_.choose(
        offers_, num_rows_, [this](std::int64_t rows) { return time_of(rows); },
        computes ? std::optional(guess_time_) : std::nullopt);
  }
  auto offer = offers_.begin();
  for (Candidate& each : candidates_) {
    if (!each.followed->count) each.num_drafts = (offer++)->num_chosen;
  }
}

void Speculator::propose(const Scheduler& scheduler, const Give& give) {
  fixed_ = false;
  guessing_ = Duration::zero();
  collect(scheduler, give);
  if (candidates_.empty()) return;
  if (!drafter_->computes()) guess();
  choose();
  if (drafter_->computes()) guess();
  for (const Candidate& each : candidates_) {
    const std::vector<TokenId>& tokens = each.followed->draft.tokens;
    const auto count = std::min(tokens.size(), static_cast<std::size_t>(each.num_drafts));
    // Those of an earlier step that were not computed are taken back.
    if (count > 0 || !each.request->drafts().empty()) {
      give(each.request->id(), std::span(tokens).first(count));
    }
  }
}

double Speculator::time_of(std::int64_t num_rows) const {
  const auto keys = static_cast<std::int64_t>(keys_of_row_ * static_cast<double>(num_rows));
  const double line = times_.expected({.num_rows = num_rows, .row_keys = keys});
  return std::max(line * row_times_.ratio(num_rows), 1.0);
}

void Speculator::took(const SchedulerOutput& plan, const ModelRunnerOutput& result, Duration time) {
  const StepWork work = work_of(plan);
  time -= std::min(time, guessing_);
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
  governor_.account(
      num_rows, num_drafts, num_accepted, [this](std::int64_t rows) { return time_of(rows); },
      read_prompts_ ? 0 : static_cast<double>(guessing_.count()));
}

}  // namespace quire
