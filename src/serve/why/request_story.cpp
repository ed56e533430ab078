#include "serve/why/request_story.h"

#include <algorithm>
#include <chrono>
#include <map>

#include <fmt/format.h>

#include "serve/why/beam_story.h"

namespace quire {
namespace {

// Microseconds, rounded down: differences of these add up exactly.
std::int64_t micros(Instant instant) {
  return std::chrono::floor<std::chrono::microseconds>(instant).count();
}
double millis(std::int64_t micros) { return static_cast<double>(micros) / 1000; }

std::string requests(std::int32_t count) {
  return count == 1 ? "1 request" : fmt::format("{} requests", count);
}

std::string because_preempted(const TimelineSpan& span) {
  const Preemption& preemption = span.preemption;
  std::string blocks =
      preemption.method == PreemptionMethod::kSwap
          ? fmt::format("its KV blocks (at most {} to read back, {} tokens to compute again",
                        preemption.num_blocks, preemption.num_tokens)
          : fmt::format("its KV blocks (at most {} tokens to compute again", preemption.num_tokens);
  if (preemption.cost > Duration::zero()) {
    const std::chrono::duration<double, std::milli> cost = preemption.cost;
    blocks += fmt::format(", in {:.1f} ms", cost.count());
  }
  if (span.blockers.count == 0) {
    return blocks + ") were needed for blocks that came from files";
  }
  return fmt::format("it gave {}) to {} and waited for room", blocks,
                     requests(span.blockers.count));
}

json::object preemption_json(const Preemption& preemption) {
  return {{"method", preemption_method_name(preemption.method)},
          {"cost_ms", millis(micros(Instant(preemption.cost)))},
          {"pages", preemption.num_pages},
          {"tokens", preemption.num_tokens},
          {"blocks", preemption.num_blocks}};
}

std::string because(const TimelineSpan& span) {
  if (span.kind == SpanKind::kDecode) {
    const std::int32_t num_guesses = span.num_tokens - span.num_steps;
    if (num_guesses == 0) return fmt::format("{} output tokens, one a step", span.num_tokens);
    return fmt::format("{} steps, each a token and one more for each guess that was right, of {}",
                       span.num_steps, num_guesses);
  }
  const std::int32_t others = span.blockers.count;
  switch (span.kind == SpanKind::kPrefill ? WaitCause::kQueueOrder : span.cause) {
    case WaitCause::kQueueOrder:
      break;
    case WaitCause::kMaxNumSeqs:
      return fmt::format("{} ran, as many as --max-num-seqs allows", requests(others));
    case WaitCause::kTokenBudget:
      return fmt::format("{} took the step's --max-num-batched-tokens", requests(others));
    case WaitCause::kStepTime:
      return fmt::format("{} took the time that a step may take (--max-step-ms)", requests(others));
    case WaitCause::kNoFreeBlocks:
      return fmt::format("its tokens did not fit into the free KV blocks beside {}",
                         requests(others));
    case WaitCause::kPreempted:
      return because_preempted(span);
    case WaitCause::kBatch:
      return others == 0 ? "the batch waited for more members"
                         : fmt::format("the batch of {} was not done", requests(others));
    case WaitCause::kAdmissionPace:
      return fmt::format("{} ran, too many for so few that waited (--waiting-served-ratio)",
                         requests(others));
    case WaitCause::kPrefixInFlight:
      return "another request computed the beginning of its prompt";
    case WaitCause::kKvFetch:
      return "KV blocks of its prompt came from the files of --kv-offload-path";
    case WaitCause::kForkParent:
      return "its first output computed the prompt that they share";
  }
  if (span.kind == SpanKind::kWait) {
    return others == 0 ? "for the next step" : fmt::format("{} were before it", requests(others));
  }
  std::string text = fmt::format("a chunk of {} tokens", span.num_tokens);
  if (span.num_cached_tokens > 0) {
    text += fmt::format(", {} before it were in the cache", span.num_cached_tokens);
  }
  if (span.num_recomputed_tokens > 0) {
    text += fmt::format(", {} of them again after a preemption", span.num_recomputed_tokens);
  }
  return text;
}

class StoryWriter {
 public:
  StoryWriter(const OutputStory& story, const RequestNames& names, const PrefixNames& prefixes,
              Instant now)
      : story_(story),
        names_(names),
        prefixes_(prefixes),
        now_(now),
        origin_(micros(story.received)) {}

  json::object write() {
    write_spans();
    json::object out = {{"index", story_.index},
                        {"status", story_.finish_reason.empty() ? "running" : "finished"},
                        {"prompt_tokens", story_.num_prompt_tokens},
                        {"output_tokens", story_.num_output_tokens},
                        {"preemptions", story_.num_preemptions}};
    if (!story_.finish_reason.empty()) out["finish_reason"] = story_.finish_reason;
    if (story_.cost) out["cost"] = *story_.cost;
    if (story_.constraint) out["constraint"] = constraint_json(*story_.constraint);
    if (story_.drafts.any()) out["drafts"] = drafts_json(story_.drafts);
    if (story_.timeline != nullptr && story_.timeline->prefix_miss()) {
      out["prefix_cache"] = prefix_json(*story_.timeline->prefix_miss(), prefixes_);
    }
    if (story_.timeline != nullptr && story_.timeline->beams()) {
      out["beams"] = beams_json(*story_.timeline->beams());
    }
    out["total_ms"] = millis(at_ - origin_);
    out["spans"] = std::move(spans_);
    json::object totals;
    for (const auto& [what, duration] : totals_) totals[what] = millis(duration);
    out["totals_ms"] = std::move(totals);
    return out;
  }

 private:
  // The part up to `end` is one span; true if there is more after it.
  bool plain(std::string_view what, std::optional<Instant> end, std::string_view why) {
    if (!end && !story_.finish_reason.empty()) end = story_.told;  // it ended before it got there
    add({{"what", what}, {"because", why}}, what, micros(end.value_or(now_)));
    return end.has_value() && at_ < micros(story_.told.value_or(Instant::max()));
  }

  void add(json::object span, std::string_view total, std::int64_t end) {
    end = std::max(end, at_);
    if (end == at_) return;
    span["start_ms"] = millis(at_ - origin_);
    span["duration_ms"] = millis(end - at_);
    spans_.push_back(std::move(span));
    totals_[std::string(total)] += end - at_;
    at_ = end;
  }

  void add(const TimelineSpan& span, Instant end) {
    const std::string_view kind = span_kind_name(span.kind);
    json::object out = {{"what", kind}};
    std::string total(kind);
    if (span.kind == SpanKind::kWait) {
      out["cause"] = wait_cause_name(span.cause);
      total += fmt::format(".{}", wait_cause_name(span.cause));
      json::array ids;
      for (std::int32_t i = 0; i < span.blockers.num_ids(); ++i) {
        ids.emplace_back(names_(span.blockers.ids[static_cast<std::size_t>(i)]));
      }
      out["waited_for"] = {{"count", span.blockers.count}, {"ids", std::move(ids)}};
      if (span.cause == WaitCause::kPreempted) out["preemption"] = preemption_json(span.preemption);
    } else {
      out["steps"] = span.num_steps;
      out["tokens"] = span.num_tokens;
      out["cached_tokens"] = span.num_cached_tokens;
      out["recomputed_tokens"] = span.num_recomputed_tokens;
    }
    out["because"] = because(span);
    add(std::move(out), total, micros(end));
  }

  void write_spans() {
    at_ = origin_;
    if (!plain("receive", story_.submitted, "parsing, chat template, tokens, limits")) return;
    if (!plain("admit", story_.arrival, "until the step in flight was done")) return;
    if (story_.timeline == nullptr) return;
    const Instant end = story_.end.value_or(now_);
    const RequestTimeline& timeline = *story_.timeline;
    for (const TimelineSpan& span : timeline.spans()) add(span, span.end);
    if (timeline.num_spans_dropped() > 0) {
      const Instant rest = timeline.open() ? timeline.open()->begin : end;
      add({{"what", "further"},
           {"because", fmt::format("{} more waits and chunks, of which only the totals are kept",
                                   timeline.num_spans_dropped())}},
          "further", micros(rest));
    }
    if (timeline.open()) add(*timeline.open(), end);
    if (!story_.end) return;
    plain("deliver", story_.told, "the last tokens on their way to the connection");
  }

  const OutputStory& story_;
  const RequestNames& names_;
  const PrefixNames& prefixes_;
  Instant now_;
  std::int64_t origin_;  // microseconds, as all below
  std::int64_t at_ = 0;
  json::array spans_;
  std::map<std::string, std::int64_t> totals_;
};

}  // namespace

std::string output_name(const std::string& external_id, std::int64_t num_outputs,
                        std::int32_t index) {
  return num_outputs == 1 ? external_id : fmt::format("{}#{}", external_id, index);
}

json::object story_json(const OutputStory& story, const RequestNames& names,
                        const PrefixNames& prefixes, Instant now) {
  return StoryWriter(story, names, prefixes, now).write();
}

json::object unread_story_json(const OutputStory& story, Instant now, std::string_view why) {
  return {{"index", story.index},
          {"status", "running"},
          {"prompt_tokens", story.num_prompt_tokens},
          {"total_ms", millis(micros(now) - micros(story.received))},
          {"left_out", why},
          {"spans", json::array()}};
}

json::object constraint_json(const ConstraintReport& report) {
  return {{"compile_ms", report.compile_ms},
          {"cached", report.cached},
          {"masks", report.num_masks},
          {"mask_ms", report.mask_ms},
          {"schema_in_prompt", report.told_in_prompt}};
}

std::string story_text(const json::object& story) {
  std::string text;
  for (const json::value& each : story.at("spans").as_array()) {
    const json::object& span = each.as_object();
    std::string what(span.at("what").as_string());
    if (const json::value* cause = span.if_contains("cause")) {
      what += fmt::format(" ({})", std::string_view(cause->as_string()));
    }
    text += fmt::format("{:>12.3f} ms {:>12.3f} ms  {:<22} {}", span.at("start_ms").as_double(),
                        span.at("duration_ms").as_double(), what,
                        std::string_view(span.at("because").as_string()));
    if (const json::value* others = span.if_contains("waited_for")) {
      const json::array& ids = others->as_object().at("ids").as_array();
      for (std::size_t i = 0; i < ids.size(); ++i) {
        text += fmt::format("{}{}", i == 0 ? ": " : ", ", std::string_view(ids[i].as_string()));
      }
      const auto count = others->as_object().at("count").as_int64();
      if (count > std::ssize(ids)) text += fmt::format(" and {} more", count - std::ssize(ids));
    }
    text += '\n';
  }
  text += fmt::format("{:>15} {:>12.3f} ms  in all\n", "", story.at("total_ms").as_double());
  if (const json::value* found = story.if_contains("constraint")) {
    const json::object& constraint = found->as_object();
    text += fmt::format("constraint: compiled in {:.3f} ms{}; {} masks in {:.3f} ms{}\n",
                        constraint.at("compile_ms").as_double(),
                        constraint.at("cached").as_bool() ? ", for a request before" : "",
                        constraint.at("masks").as_int64(), constraint.at("mask_ms").as_double(),
                        constraint.at("schema_in_prompt").as_bool() ? "; told in the prompt" : "");
  }
  if (const json::value* prefix = story.if_contains("prefix_cache")) {
    text += fmt::format("prefix cache: {}\n",
                        std::string_view(prefix->as_object().at("because").as_string()));
  }
  if (const json::value* drafts = story.if_contains("drafts")) {
    const json::value* because = drafts->as_object().if_contains("because");
    if (because != nullptr)
      text += fmt::format("guesses: {}\n", std::string_view(because->as_string()));
  }
  if (const json::value* found = story.if_contains("beams")) {
    const json::object& beams = found->as_object();
    text += fmt::format("beams: {} and {} forks; {}\n", beams.at("width").as_int64(),
                        beams.at("forks").as_int64(),
                        std::string_view(beams.at("because").as_string()));
  }
  return text;
}

json::object short_story(const RequestOutput& output) {
  json::object story;
  if (output.timeline == nullptr || !output.metrics.finished) return story;
  const Instant end = *output.metrics.finished;
  const RequestTimeline& timeline = *output.timeline;
  story["total_ms"] = millis(micros(end) - micros(output.metrics.arrival));
  json::object waits;
  for (std::size_t i = 0; i < kNumWaitCauses; ++i) {
    const auto cause = static_cast<WaitCause>(i);
    const Duration total = timeline.total(cause, end);
    if (total > Duration::zero()) waits[wait_cause_name(cause)] = millis(micros(total));
  }
  story["waits_ms"] = std::move(waits);
  story["prefill_ms"] = millis(micros(timeline.total(SpanKind::kPrefill, end)));
  story["decode_ms"] = millis(micros(timeline.total(SpanKind::kDecode, end)));
  story["cached_tokens"] = output.num_cached_tokens;
  story["preemptions"] = output.metrics.num_preemptions;
  if (const DraftsStory drafts(output); drafts.any()) story["drafts"] = drafts_json(drafts);
  if (timeline.beams()) story["beams"] = beams_json(*timeline.beams());
  if (output.constraint) story["constraint"] = constraint_json(*output.constraint);
  return story;
}

}  // namespace quire
