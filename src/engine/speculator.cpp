#include "engine/speculator.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace quire {

namespace {

static_assert(SpeculativeConfig::kMaxTokens == kMaxDrafts);

// Unread tokens of a request beyond which they are a prompt, and not what the last step gave.
constexpr std::size_t kMostUnread = 1 + SpeculativeConfig::kMaxTokens;

// The mean of the last `memory` values, or so.
void take_in(double value, std::int64_t memory, double& mean, std::int64_t& count) {
  count = std::min(count + 1, memory);
  mean += (value - mean) / static_cast<double>(count);
}

}  // namespace

Speculator::Speculator(std::unique_ptr<Drafter> drafter, std::int32_t max_drafts,
                       std::int64_t max_num_seqs, std::function<Instant()> now)
    : drafter_(std::move(drafter)), max_drafts_(max_drafts), now_(std::move(now)) {
  candidates_.reserve(static_cast<std::size_t>(max_num_seqs));
  offers_.reserve(static_cast<std::size_t>(max_num_seqs));
  wishes_.reserve(static_cast<std::size_t>(max_num_seqs));
}

void Speculator::begin(RequestId request_id, DraftCount count,
                       std::shared_ptr<SpeculationReport> report) {
  if (count == 0) return;
  Followed& followed = followed_[request_id];
  followed.count = count;
  followed.report = std::move(report);
}

void Speculator::end(RequestId request_id, std::span<const TokenId> output) {
  const auto found = followed_.find(request_id);
  if (found == followed_.end()) return;
  constexpr std::int64_t kMemory = 32;  // outputs
  take_in(static_cast<double>(output.size()), kMemory, output_length_, num_lengths_);
  if (found->second.begun) drafter_->end(request_id, output);
  followed_.erase(found);
}

// Only what runs needs room.
Speculator::Followed* Speculator::follow(const Request& request) {
  const auto found = followed_.find(request.id());
  if (found == followed_.end() || found->second.refused || request.is_pooled()) return nullptr;
  Followed& followed = found->second;
  if (!followed.begun) {
    followed.odds = RequestOdds(request.sampling_params()->temperature > 0);
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
  if (followed.guess.empty()) return;
  const auto tokens = std::span(request.token_ids()).subspan(followed.guessed_at);
  while (followed.num_learned < tokens.size()) {
    if (learn_next(followed, tokens[followed.num_learned])) continue;
    followed.guess.clear();
    return;
  }
}

// Of the next place; whether something was guessed for the one behind it.
bool Speculator::learn_next(Followed& followed, TokenId token) {
  const DraftTreeView guess = followed.guess.view();
  const std::size_t place = followed.num_learned++;
  const std::int32_t before = followed.last_right;
  std::size_t num_choices = 0;
  for (std::int32_t i = before + 1; i < guess.size(); ++i) {
    if (guess.parent(i) == before) ++num_choices;
  }
  std::size_t index = 0;
  bool goes_on = false;
  for (std::int32_t i = before + 1; i < guess.size(); ++i) {
    if (guess.parent(i) == followed.last_right && followed.last_right != before) goes_on = true;
    if (guess.parent(i) != before) continue;
    const bool right = guess.token(i) == token;
    const std::size_t rank = Acceptance::rank_of(index++, num_choices, drafter_->computes());
    followed.acceptance.observe(Acceptance::class_of(followed.guess.match), place, right, rank);
    if (!drafter_->computes()) {
      governor_.observe_found(followed.odds, followed.guess.match, place, right, rank);
    }
    governor_.observe(followed.guess.match, place, right, rank);
    if (drafter_->estimates()) {
      governor_.observe(followed.odds, place, followed.guess.probabilities[place], right);
    }
    if (right) followed.last_right = i;
  }
  return goes_on;
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
    Candidate& candidate = candidates_.emplace_back();
    candidate.request = request;
    candidate.followed = followed;
    candidate.num_drafts = most_guesses(request->max_computed_tokens() - request->num_tokens());
    if (followed->count) {
      candidate.num_drafts = std::min({candidate.num_drafts, max_drafts_, *followed->count});
    }
  }
  keys_of_row_ =
      num_rows_ == 0 ? 0 : static_cast<double>(num_keys) / static_cast<double>(num_rows_);
}

// At what follows a text that may get so many tokens more. Of a tree, what is too deep is cut by
// the scheduler.
std::int32_t Speculator::most_guesses(std::int32_t room) const {
  const auto tree_size = static_cast<std::int32_t>(drafter_->tree().size());
  if (tree_size > 0 && room > 0) return tree_size;
  return std::min(room, drafter_->branches() ? kMaxTreeDrafts : max_drafts_);
}

// What was chosen of the drafter's tree, or its beginning.
void Speculator::wish(const Candidate& candidate) {
  std::vector<std::int32_t>& wished = candidate.followed->wished;
  wished.clear();
  if (candidate.num_drafts <= 0) return;
  std::array<std::int32_t, kMaxTreeDrafts> places{};
  const std::span<const std::int32_t> tree = drafter_->tree();
  for (std::size_t i = 0; i < tree.size(); ++i) {
    const bool taken = candidate.followed->count
                           ? static_cast<std::int32_t>(i) < candidate.num_drafts
                           : (candidate.chosen >> i & 1) != 0;
    if (!taken) continue;
    places[i] = static_cast<std::int32_t>(wished.size());
    wished.push_back(tree[i] < 0 ? tree[i] : places[static_cast<std::size_t>(tree[i])]);
  }
  const bool estimated = drafter_->estimates() && !candidate.followed->count;
  if (estimated) {
    candidate.followed->prospect =
        governor_.prospect_of(candidate.followed->odds, candidate.num_drafts);
  }
  wishes_.push_back({.request_id = candidate.request->id(),
                     .tokens = candidate.request->token_ids(),
                     .most = candidate.num_drafts,
                     .draft = &candidate.followed->draft,
                     .parents = wished,
                     .prospect = estimated ? &candidate.followed->prospect : nullptr});
}

// As many as each candidate may have.
void Speculator::guess() {
  wishes_.clear();
  for (const Candidate& each : candidates_) {
    each.followed->draft.clear();
    wish(each);
  }
  const std::size_t unread = num_unread();
  const Instant start = now_();
  const DraftWork work = drafter_->draft(wishes_);
  drafting_ = now_() - start;
  guessing_ = work == DraftWork::kNone ? Duration::zero() : drafting_;
  read_prompts_ = work == DraftWork::kPrompts;
  std::int32_t longest = 0;
  for (const Candidate& each : candidates_) {
    Followed& followed = *each.followed;
    longest = std::max(longest, std::ranges::max(depths_of(followed.draft.view())));
    if (!followed.guess.empty()) continue;
    followed.guess = followed.draft;
    followed.guessed_at = each.request->token_ids().size();
    followed.num_learned = 0;
    followed.last_right = DraftTreeView::kRoot;
  }
  constexpr std::int64_t kMemory = 16;  // steps
  const auto time = static_cast<double>(guessing_.count());
  if (const std::size_t left = num_unread(); work == DraftWork::kPrompts && left < unread) {
    take_in(time / static_cast<double>(unread - left), kMemory, read_time_, num_read_times_);
  }
  if (work != DraftWork::kSteps || longest == 0) return;
  take_in(time / static_cast<double>(longest), kMemory, guess_time_, num_guess_times_);
}

// Of those that wish for guesses.
std::size_t Speculator::num_unread() const {
  std::size_t count = 0;
  for (const DraftWish& wish : wishes_) {
    if (wish.most > 0) count += drafter_->num_unread(wish.request_id, wish.tokens);
  }
  return count;
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
      offers_.push_back(offer_of(each));
    }
  }
  if (offers_.empty()) return;
  if (timed_) {
    governor_.choose(
        offers_, num_rows_, [this](std::int64_t rows) { return time_of(rows); },
        computes ? std::optional(guess_time_) : std::nullopt);
  }
  take_choices();
}

// Of the offers, which are those of the candidates without a number of their own.
void Speculator::take_choices() {
  auto offer = offers_.begin();
  for (Candidate& each : candidates_) {
    if (each.followed->count) continue;
    each.num_drafts = offer->num_chosen;
    each.chosen = (offer++)->chosen;
  }
}

// Which of the guesses that were made are checked, by how sure whoever made them is.
void Speculator::choose_made() {
  offers_.clear();
  for (const Candidate& each : candidates_) {
    if (each.followed->count) continue;
    const Draft& draft = each.followed->draft;
    offers_.push_back({.num_tokens = draft.view().size(),
                       .odds = &each.followed->odds,
                       .probabilities = draft.probabilities});
  }
  if (offers_.empty()) return;
  governor_.choose_made(
      offers_, num_rows_, [this](std::int64_t rows) { return time_of(rows); },
      read_prompts_ ? 0 : static_cast<double>(guessing_.count()));
  take_choices();
}

DraftOffer Speculator::offer_of(const Candidate& candidate) const {
  const Draft& draft = candidate.followed->draft;
  const bool computes = drafter_->computes();
  DraftOffer offer = {
      .acceptance = &candidate.followed->acceptance,
      .match = computes ? 0 : draft.match,
      .num_tokens = std::max(candidate.num_drafts, 0),
      .parents = computes ? drafter_->tree() : draft.parents,
      .most = max_drafts_,
      .odds = drafter_->estimates() || !computes ? &candidate.followed->odds : nullptr};
  const Request& request = *candidate.request;
  const std::size_t unread = drafter_->num_unread(request.id(), request.token_ids());
  if (unread <= kMostUnread) return offer;
  offer.reading = read_time_ * static_cast<double>(unread);
  offer.tokens_left = request.max_computed_tokens() - request.num_tokens();
  // Whatever an output has come to, it goes on for as long as outputs are on average.
  if (num_lengths_ > 0) offer.tokens_left = std::min(offer.tokens_left, output_length_);
  return offer;
}

void Speculator::propose(const Scheduler& scheduler, const Give& give) {
  fixed_ = false;
  guessing_ = Duration::zero();
  drafting_ = Duration::zero();
  collect(scheduler, give);
  if (candidates_.empty()) return;
  if (!drafter_->computes()) guess();
  choose();
  if (drafter_->computes()) guess();
  if (drafter_->estimates()) choose_made();
  for (const Candidate& each : candidates_) {
    select(each);
    // Those of an earlier step that were not computed are undone.
    if (!given_.empty() || !each.request->drafts().empty()) {
      give(each.request->id(), given_.view());
    }
  }
}

// Into given_: the guesses that it gets. Each comes after its parent, which is one of them.
void Speculator::select(const Candidate& candidate) {
  const DraftTreeView draft = candidate.followed->draft.view();
  given_.clear();
  if (candidate.followed->count || drafter_->computes()) {
    return given_.assign(draft.first(std::clamp(candidate.num_drafts, 0, draft.size())));
  }
  std::array<std::int32_t, kMaxTreeDrafts> places{};
  for (std::int32_t i = 0; i < draft.size(); ++i) {
    if ((candidate.chosen >> i & 1) == 0) continue;
    const std::int32_t parent = draft.parent(i);
    places[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(given_.tokens.size());
    given_.tokens.push_back(draft.token(i));
    given_.parents.push_back(parent < 0 ? parent : places[static_cast<std::size_t>(parent)]);
  }
}

double Speculator::time_of(std::int64_t num_rows) const {
  const auto keys = static_cast<std::int64_t>(keys_of_row_ * static_cast<double>(num_rows));
  return time_of({.num_rows = num_rows, .row_keys = keys});
}

double Speculator::time_of(const StepWork& work) const {
  const double line = times_.expected(work);
  return std::max(work.prompt_tokens > 0 ? line : line * row_times_.ratio(work.num_rows), 1.0);
}

void Speculator::took(const SchedulerOutput& plan, const ModelRunnerOutput& result,
                      std::span<const RequestStepOutput> outputs, Duration time,
                      Duration drafting) {
  time -= std::min(time, drafting);
  SpeculatedStep step = {.computing = time, .before = drafting};
  if (drafter_->computes()) {
    const Instant start = now_();
    drafter_->computed(plan, result);
    step.after = now_() - start;
  }
  const StepWork work = work_of(plan);
  const auto num_drafts = static_cast<std::int64_t>(plan.draft_token_ids.size());
  step.num_rows = work.num_rows - num_drafts;
  times_.measured(work, time);
  // By the line that knows of this step: at the start it is far off before.
  const double expected = times_.expected(work);
  const bool decodes = work.prompt_tokens == 0 && work.num_rows > 0 && expected > 0;
  if (decodes) {
    timed_ = true;
    row_times_.observe(work.num_rows, expected, static_cast<double>(time.count()));
    fewest_rows_ = std::min(fewest_rows_ == 0 ? work.num_rows : fewest_rows_, work.num_rows);
  }
  measure(plan, outputs, step);
  if (fixed_ || !decodes) return;
  // Each of the rows gave one token, and one more for each draft that was right.
  const std::int64_t num_accepted = std::ssize(result.sampled) - step.num_rows;
  governor_.account(
      step.num_rows, num_drafts, num_accepted, [this](std::int64_t rows) { return time_of(rows); },
      read_prompts_ ? 0 : static_cast<double>(guessing_.count()));
}

void Speculator::measure(const SchedulerOutput& plan, std::span<const RequestStepOutput> outputs,
                         SpeculatedStep step) {
  if (const StepWork whole = work_of(plan); whole.num_rows > step.num_rows) {
    StepWork without = whole;
    without.num_rows = step.num_rows;
    without.row_keys = whole.row_keys / whole.num_rows * step.num_rows;
    const double time = time_of(whole);
    step.without_drafts = std::min(time_of(without) / time, 1.0);
    without.prompt_tokens = without.prompt_keys = 0;
    step.further_step = std::min(time_of(without) / time, 1.0);
    step.known = fewest_rows_ > 0 && fewest_rows_ <= step.num_rows;
  }
  meter_.add(plan, outputs, step, [this](RequestId output_id) {
    const auto found = followed_.find(output_id);
    return found == followed_.end() ? nullptr : found->second.report.get();
  });
}

}  // namespace quire
