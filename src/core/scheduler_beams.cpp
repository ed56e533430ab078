// A beam search in the scheduler: one request with several rows.
#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "core/scheduler.h"

namespace quire {

// Sequences that an executor has or may have of those that run.
std::int64_t Scheduler::num_rows_running() const {
  auto num_rows = static_cast<std::int64_t>(retained_.size());
  for (const Request* request : running_) num_rows += request->max_rows();
  return num_rows;
}

// What its beams hold besides the first one's pages, with all tokens that they know.
std::int64_t Scheduler::branch_pages(const Request& request) const {
  const std::int64_t num_others = std::ssize(request.beams()->search.beams()) - 1;
  return num_others * kv_.max_branch_pages(request.num_common_tokens(), request.num_tokens(),
                                           config_.max_tokens_in_flight());
}

// Where what they have in common is scheduled, each beam gets a table of its own.
void Scheduler::part_beams(Request& request) {
  BeamRows& rows = request.beams()->rows;
  if (request.before_parting() || rows.placed().size() == rows.ids().size()) return;
  for (const RequestId id : rows.ids().subspan(1)) kv_.fork(rows.ids()[0], id);
  rows.place_all();
}

// The rows of a step that the executor does not know, or knows with tokens of other beams.
void Scheduler::announce_beams(Request& request, SchedulerOutput& plan) {
  BeamRows& rows = request.beams()->rows;
  for (std::size_t row = rows.told().size(); row < request.row_ids().size(); ++row) {
    announce(request, row, plan);
  }
  rows.tell_all_placed();
}

// `sampled`: what the step gave its rows, in order, where they are for tokens.
void Scheduler::take_in_beams(const StepsInFlight::Share& share, const ModelRunnerOutput& output,
                              std::span<const SampledToken> sampled, Instant now) {
  Request& request = *share.request;
  BeamRows& rows = request.beams()->rows;
  const Request::Computed computed = request.complete(share.num_tokens);
  for (std::int32_t row = 0; row < share.num_rows; ++row) count(computed);
  for (std::size_t row = 0; row < rows.placed().size(); ++row) {
    const RequestId id = rows.placed()[row];
    kv_.commit(id, request.row_token_ids(row), request.num_computed_tokens(),
               request.cache_scope());
    kv_.release_passed(id, request.num_computed_tokens());
  }
  if (share.use != RowUse::kTokens) return;
  std::vector<std::span<const TokenLogprob>> candidates;
  for (const SampledToken& token : sampled.first(static_cast<std::size_t>(share.num_rows))) {
    candidates.push_back(std::span(output.top_logprobs)
                             .subspan(static_cast<std::size_t>(token.first_top_logprob),
                                      static_cast<std::size_t>(token.num_top_logprobs)));
  }
  request.append_beams(candidates, now);
  const BeamSearch& search = request.beams()->search;
  counters_.output_tokens_sampled += std::max<std::int64_t>(std::ssize(search.beams()), 1);
  if (request.share() != nullptr) {
    request.share()->served += request.max_rows() * FairShares::kOutputWeight;
  }
  if (!request.finished()) follow_beams(request);
}

// The next beams go on with their parents' blocks.
void Scheduler::follow_beams(Request& request) {
  BeamRows& rows = request.beams()->rows;
  removed_request_ids_.insert(removed_request_ids_.end(), rows.told().begin(), rows.told().end());
  const BeamRows::Changes changes = rows.follow(request.beams()->search.beams());
  for (const RequestId id : changes.dropped) kv_.free(id);
  for (const auto [parent, child] : changes.forks) kv_.fork(parent, child);
}

Status Scheduler::check_candidates(const SampledToken& token, const ModelRunnerOutput& output) {
  const std::int64_t first = token.first_top_logprob;
  const std::int64_t count = token.num_top_logprobs;
  bool valid = first >= 0 && count > 0 && first + count <= std::ssize(output.top_logprobs);
  for (std::int64_t i = first; valid && i < first + count; ++i) {
    const TokenLogprob& each = output.top_logprobs[static_cast<std::size_t>(i)];
    valid = each.token_id >= 0 && std::isfinite(each.logprob);
  }
  if (valid) return {};
  return Status::internal(fmt::format("step {} gives beam {} no candidates to choose from",
                                      output.step_id, token.request_id));
}

}  // namespace quire
