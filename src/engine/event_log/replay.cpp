#include "engine/event_log/replay.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/event_log/snapshot_codec.h"

namespace quire {
std::vector<std::string> describe_plan(const SchedulerOutput& plan) {
  std::vector<std::string> lines;
  if (plan.step_id == 0) {
    lines.emplace_back("nothing to compute");
    return lines;
  }
  lines.push_back(fmt::format("step {}: {} requests, {} tokens", plan.step_id,
                              plan.scheduled.size(), plan.total_num_scheduled_tokens));
  for (const BlockTruncation& each : plan.truncated_tables) {
    lines.push_back(fmt::format("request {} keeps {} blocks", each.request_id, each.num_blocks));
  }
  for (const BlockReplacement& each : plan.adopted_blocks) {
    lines.push_back(fmt::format("request {}: entry {} of its table becomes its drafts' block {}",
                                each.request_id, each.index, each.block_id));
  }
  for (const RequestId id : plan.removed_request_ids) {
    lines.push_back(fmt::format("request {} leaves", id));
  }
  for (const NewRequestData& each : plan.new_requests) {
    lines.push_back(
        fmt::format("request {} starts: {} tokens, {} of them prompt, sample {}, {} "
                    "blocks that are computed already (entry {})",
                    each.request_id, each.num_tokens, each.num_prompt_tokens, each.sample_index,
                    each.num_blocks, each.first_block));
  }
  for (const BlockReplacement& each : plan.replaced_blocks) {
    lines.push_back(fmt::format("request {}: entry {} of its table becomes block {}",
                                each.request_id, each.index, each.block_id));
  }
  for (const BlockStore& each : plan.block_stores) {
    lines.push_back(fmt::format("block {} is offloaded as {:016x}", each.block_id, each.name[0]));
  }
  for (const BlockFetch& each : plan.block_fetches) {
    lines.push_back(fmt::format("block {} is fetched as {:016x}, by fetch {}", each.block_id,
                                each.name[0], each.fetch_id));
  }
  for (const BlockCopy& each : plan.block_copies) {
    lines.push_back(fmt::format("block {} is copied to block {}", each.source, each.destination));
  }
  for (const ScheduledRequest& each : plan.scheduled) {
    std::string line =
        fmt::format("request {} computes {} tokens after {} for {}", each.request_id,
                    each.num_scheduled_tokens, each.num_computed_tokens, row_use_name(each.use));
    if (each.num_drafts > 0) line += fmt::format(", {} of them drafts", each.num_drafts);
    if (each.num_branched > 0) {
      line += fmt::format(", {} on other paths, which have {} blocks", each.num_branched,
                          each.num_branch_blocks);
    }
    if (each.num_new_blocks > 0) {
      line += fmt::format(", {} new blocks (entry {})", each.num_new_blocks, each.first_new_block);
    }
    lines.push_back(std::move(line));
  }
  lines.push_back(fmt::format("new blocks: {}", fmt::join(plan.new_block_ids, " ")));
  return lines;
}

Status Replay::begin_segment(const SegmentReader& segment) {
  if (difference_) return {};
  const SegmentHeader& next = segment.header();
  const bool follows = scheduler_ != nullptr && next.run_id == header_.run_id &&
                       next.number == header_.number + 1 && next.num_lost == 0 && plans_.empty();
  if (scheduler_ == nullptr || next.run_id != header_.run_id) ++summary_.num_runs;
  ++summary_.num_segments;
  summary_.num_lost += next.num_lost;
  header_ = next;
  time_ = next.time;
  if (follows) {
    compare_state(segment);
    return {};
  }
  return restore(segment);
}

Status Replay::restore(const SegmentReader& segment) {
  note_preemptions();
  auto restored = Scheduler::restore(segment.snapshot());
  if (!restored.ok()) return segment.damaged(restored.status().message());
  scheduler_ = std::move(*restored);
  preemptions_before_ = scheduler_->stats().num_preemptions;
  plans_.clear();
  end_reason_.reset();
  return {};
}

void Replay::compare_state(const SegmentReader& segment) {
  const auto own = scheduler_->snapshot();
  if (!own.ok()) return differ(own.status().message());
  ++summary_.num_states_compared;
  const std::string parts = snapshot_difference(segment.snapshot(), *own);
  if (parts.empty()) return;
  step_id_ = 0;
  differ(fmt::format("the scheduler's state at the start of segment {} is another one: {}",
                     header_.number, parts));
}

Status Replay::apply(const EventRecord& record) {
  if (difference_ || scheduler_ == nullptr) return {};
  const Instant before = time_;
  QUIRE_RETURN_IF_ERROR(std::visit(
      [&](const auto& each) {
        time_ = each.time;
        return apply_record(each);
      },
      record));
  summary_.recorded += time_ - before;
  if (!difference_) ++summary_.num_records;
  note_preemptions();
  return {};
}

// An engine calls its scheduler only where one step more may be in flight.
Status Replay::check_free(std::string_view what) const {
  const auto most = static_cast<std::size_t>(scheduler_->config().max_steps_in_flight);
  if (scheduler_->num_steps_in_flight() < most) return {};
  return Status::invalid_argument(
      fmt::format("{} comes while {} steps are in flight, which is the most", what, most));
}

Status Replay::apply_record(const AddRecord& record) {
  QUIRE_RETURN_IF_ERROR(check_free("a request"));
  step_id_ = 0;
  const Status status = scheduler_->add(record.request, record.time);
  if (status.code() != record.outcome) {
    differ(fmt::format("request {} was {}, and is {} here", record.request.request_id,
                       status_code_name(record.outcome), status_code_name(status.code())));
    difference_->recorded.emplace_back(record.outcome == StatusCode::kOk ? "accepted" : "refused");
    difference_->replayed.push_back(status.ok() ? "accepted" : status.message());
    return {};
  }
  if (status.ok()) {
    const SamplingParams& params = *record.request.sampling_params;
    summary_.num_added += params.is_beam_search() ? 1 : static_cast<std::uint64_t>(params.n);
  } else {
    ++summary_.num_refused;
  }
  return {};
}

// Also while as many steps are in flight as may be: where a step has shown that a request's
// constraint allows nothing more, it is aborted before the step's result is processed.
Status Replay::apply_record(const AbortRecord& record) {
  step_id_ = 0;
  const auto aborted = scheduler_->abort(record.request_id, record.time);
  if ((aborted != nullptr) != record.found) {
    differ(fmt::format("request {} was {} when it was aborted, and is {} here", record.request_id,
                       record.found ? "there" : "not there", record.found ? "not there" : "there"));
    return {};
  }
  if (aborted == nullptr) return {};
  ++summary_.num_aborted;
  if (on_end_) on_end_(*aborted, record.time);
  return {};
}

Status Replay::apply_record(const PlanRecord& record) {
  step_id_ = record.plan.step_id;
  QUIRE_RETURN_IF_ERROR(check_free("a plan"));
  SchedulerOutput& plan = plans_.emplace_back(PlannedStep{.plan = {}, .time = record.time}).plan;
  QUIRE_RETURN_IF_ERROR(scheduler_->schedule(record.time, plan));
  // The same bytes are the same plan.
  recorded_bytes_.clear();
  replayed_bytes_.clear();
  encode_plan(record.plan, {}, recorded_bytes_);
  encode_plan(plan, {}, replayed_bytes_);
  if (recorded_bytes_ != replayed_bytes_) {
    differ(step_id_ == 0 ? "a step was planned where none was"
                         : fmt::format("step {} was planned otherwise", step_id_));
    difference_->recorded = describe_plan(record.plan);
    difference_->replayed = describe_plan(plan);
    return {};
  }
  summary_.num_steps += plan.empty() ? 0 : 1;
  summary_.num_scheduled_tokens += static_cast<std::uint64_t>(plan.total_num_scheduled_tokens);
  summary_.num_draft_tokens += plan.draft_token_ids.size();
  for (const ScheduledRequest& each : plan.scheduled) {
    summary_.num_branched_drafts += static_cast<std::uint64_t>(each.num_branched);
  }
  summary_.num_adopted_blocks += plan.adopted_blocks.size();
  if (plan.empty()) plans_.pop_back();
  return {};
}

Status Replay::apply_record(const ResultRecord& record) {
  if (plans_.empty()) return Status::invalid_argument("a result comes without a plan");
  const SchedulerOutput& plan = plans_.front().plan;
  step_id_ = plan.step_id;
  result_.clear();
  result_.step_id = plan.step_id;
  std::size_t num_sampled = 0;
  for (const ScheduledRequest& each : plan.scheduled) {
    if (each.use == RowUse::kState) result_.pooled.push_back({.request_id = each.request_id});
    if (each.use != RowUse::kTokens) continue;
    // One token, and one more after each guess that it was.
    const DraftTreeView drafts = plan.drafts_of(each);
    for (std::optional<std::int32_t> node = DraftTreeView::kRoot; node;) {
      if (num_sampled == record.sampled.size()) {
        return Status::invalid_argument(
            fmt::format("the result of step {} lacks tokens", step_id_));
      }
      const TokenId token = record.sampled[num_sampled++];
      result_.sampled.push_back({.request_id = each.request_id, .token_id = token});
      node = drafts.child(*node, token);
      summary_.num_accepted_drafts += node ? 1 : 0;
    }
  }
  if (num_sampled != record.sampled.size()) {
    return Status::invalid_argument(
        fmt::format("the result of step {} has too many tokens", step_id_));
  }
  if (!take_candidates(record.beams, result_)) {
    return Status::invalid_argument(
        fmt::format("the result of step {} has candidates of no token", step_id_));
  }
  if (on_step_) on_step_(plan, plans_.front().time, record.time);
  const Status status = scheduler_->update(result_, record.time, outputs_);
  if (!status.ok()) return Status::invalid_argument(status.message());
  plans_.pop_front();
  for (const RequestStepOutput& each : outputs_) {
    summary_.num_output_tokens += static_cast<std::uint64_t>(each.num_sampled);
    if (each.finished == nullptr) continue;
    ++summary_.num_finished;
    if (on_end_) on_end_(*each.finished, record.time);
  }
  return {};
}

Status Replay::apply_record(const EndRecord& record) {
  end_reason_ = record.reason;
  return {};
}

Status Replay::apply_record(const PaceRecord& record) {
  QUIRE_RETURN_IF_ERROR(check_free("a pace"));
  scheduler_->set_pace(record.pace);
  return {};
}

Status Replay::apply_record(const DraftRecord& record) {
  QUIRE_RETURN_IF_ERROR(check_free("a draft"));
  scheduler_->propose(record.request_id, record.drafts.view());
  return {};
}

Status Replay::apply_record(const PrefixCacheResetRecord&) {
  QUIRE_RETURN_IF_ERROR(check_free("a reset of the prefix cache"));
  scheduler_->reset_prefix_cache();
  return {};
}

Status Replay::apply_record(const TierRecord& record) {
  QUIRE_RETURN_IF_ERROR(check_free("a report of the lower tier"));
  scheduler_->take_in(record.report, record.time);
  return {};
}

Status Replay::apply_record(const UnpinRecord& record) {
  QUIRE_RETURN_IF_ERROR(check_free("the end of a pin"));
  step_id_ = 0;
  if (scheduler_->unpin(record.pin_id) == record.found) return {};
  differ(fmt::format("pin {} was {} when it was let go, and is {} here", record.pin_id,
                     record.found ? "there" : "not there", record.found ? "not there" : "there"));
  return {};
}

void Replay::differ(std::string what) {
  difference_ = ReplayDifference{.what = std::move(what),
                                 .segment = header_.number,
                                 .step_id = step_id_,
                                 .time = time_,
                                 .recorded = {},
                                 .replayed = {}};
}

void Replay::note_preemptions() {
  if (scheduler_ == nullptr) return;
  const std::int64_t now = scheduler_->stats().num_preemptions;
  summary_.num_preemptions += static_cast<std::uint64_t>(now - preemptions_before_);
  preemptions_before_ = now;
}

}  // namespace quire
