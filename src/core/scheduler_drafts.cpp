// Drafts in the scheduler: which of a request's guesses a step computes, and which of them were
// right.
#include <algorithm>
#include <cassert>

#include <fmt/format.h>

#include "core/scheduler.h"

namespace quire {

void Scheduler::propose(RequestId request_id, DraftTreeView drafts) {
  const auto found = requests_.find(request_id);
  if (found == requests_.end() || found->second->state() != RequestState::kRunning) return;
  if (batch_.retains() || found->second->is_beam_search() || kv_.keeps_states()) return;
  drafts = drafts.first(std::min(drafts.size(), kMaxDrafts));
  assert(drafts.valid());
  found->second->propose(drafts);
}

bool Scheduler::wants_drafts(const Request& request) const {
  return !request.drafts().empty() && request.num_placeholders() == 0;
}

// No further than the output may go.
std::int32_t Scheduler::num_drafts_wanted(const Request& request) const {
  if (!wants_drafts(request)) return 0;
  const DraftTreeView drafts = request.drafts();
  const DraftDepths depths = depths_of(drafts);
  const std::int32_t room = request.max_computed_tokens() - request.num_tokens();
  return static_cast<std::int32_t>(
      std::count_if(depths.begin(), depths.begin() + drafts.size(),
                    [&](std::int32_t depth) { return depth <= room; }));
}

// What is shared is counted for each that writes it, and what a step preempts gives pages back: no
// request needs more when its turn comes.
void Scheduler::find_needs() {
  needs_.clear();
  const auto wants = [this](const Request* request) { return wants_drafts(*request); };
  if (std::ranges::none_of(running_, wants)) return;
  needs_.resize(running_.size() + 1, 0);
  for (std::size_t i = running_.size(); i-- > 0;) {
    const Request& request = *running_[i];
    const std::int32_t num_tokens =
        std::min(request.num_pending_in_rows(), config_.max_num_batched_tokens);
    needs_[i] = needs_[i + 1];
    if (num_tokens <= 0) continue;
    needs_[i] += kv_.pages_needed(request.row_ids(), request.num_scheduled_tokens(), num_tokens);
  }
}

// Guesses are computed only where no request has to give up anything for them: neither those that
// run from `place` on, nor, for more than a chain, who waits.
void Scheduler::plan_drafts(const Request& request, const StepBudget& budget, std::size_t place) {
  const std::int32_t most = budget.tokens_left() - 1;
  if (!wants_drafts(request) || most <= 0) return;
  const std::int32_t max_paths = request.constrained() ? 1 : config_.max_draft_paths;
  const DraftTreeView wanted = request.drafts();
  order_by_paths(wanted.first(std::min(wanted.size(), most)),
                 request.max_computed_tokens() - request.num_tokens(), max_paths, drafts_);
  if (drafts_.empty()) return;
  paths_of(drafts_.view(), draft_paths_);
  const std::int32_t num_computed_tokens = request.num_scheduled_tokens();
  const std::int32_t length = draft_paths_[0].count;
  std::int64_t free = kv_.pool().num_free_blocks() - needs_[place] -
                      kv_.pages_needed(request.id(), num_computed_tokens, 1 + length);
  if (free < 0) return drafts_.clear();
  if (draft_paths_.size() == 1) return;
  if (!waiting_.empty()) {
    free -= kv_.max_pages(waiting_.back()->num_tokens(), config_.max_tokens_in_flight());
  }
  if (kv_.branch_pages(num_computed_tokens, draft_paths_) <= free) return;
  drafts_.tokens.resize(static_cast<std::size_t>(length));
  drafts_.parents.resize(static_cast<std::size_t>(length));
}

// Returns how many entries they have.
std::int32_t Scheduler::plan_branches(const Request& request, std::int32_t num_computed_tokens,
                                      SchedulerOutput& plan) {
  if (num_on_first_path(drafts_.view()) == drafts_.view().size()) return 0;
  return *kv_.branch(request.id(), num_computed_tokens, draft_paths_, plan);
}

// All tokens but the last must be drafts, each after the one before.
Status Scheduler::check_drafted(const StepsInFlight::Share& share,
                                std::span<const SampledToken> tokens, StepId step_id) const {
  if (share.request == nullptr) return {};
  std::int32_t node = DraftTreeView::kRoot;
  for (const SampledToken& token : tokens.first(tokens.size() - 1)) {
    const auto child = share.request->drafts_in_flight().child(node, token.token_id);
    if (!child) {
      return Status::internal(fmt::format(
          "step {} gives request {} a token after token {}, which was not drafted there", step_id,
          share.request_id, token.token_id));
    }
    node = *child;
  }
  return {};
}

// `tokens`: what the request accepted of them.
void Scheduler::settle_drafts(const StepsInFlight::Share& share,
                              std::span<const SampledToken> tokens) {
  Request& request = *share.request;
  const DraftTreeView drafts = request.drafts_in_flight();
  std::int32_t last = DraftTreeView::kRoot;
  for (const SampledToken& token : tokens.first(tokens.size() - 1)) {
    last = *drafts.child(last, token.token_id);
  }
  std::int32_t path = 0;
  if (last != DraftTreeView::kRoot) {
    paths_of(drafts, draft_paths_);
    path = path_with(draft_paths_, last);
  }
  const auto num_accepted = static_cast<std::int32_t>(tokens.size()) - 1;
  counters_.tokens_discarded += share.num_drafts - num_accepted;
  count_drafts(request, num_accepted, share.num_drafts - num_accepted);
  request.drop_drafts_in_flight();
  if (const auto num_blocks = kv_.truncate(request.id(), request.num_computed_tokens())) {
    truncated_tables_.push_back({request.id(), *num_blocks});
  }
  if (share.num_branched > 0) kv_.adopt(request.id(), path, adopted_blocks_);
}

}  // namespace quire
