// The story of a request: what it did from the moment it came until its answer was handed out, span
// by span, each with its cause, so that "why was this slow?" is answered by what happened.
//
//   received .. submitted   receive   parsing, chat template, tokens, limits
//   submitted .. arrival    admit     until the step in flight was done and the scheduler got it
//   arrival .. finish_time  the scheduler's spans (core/request_timeline.h): wait, prefill, decode
//   finish_time .. told     deliver   text of the last tokens, on its way to the connection
//
// The spans follow one another without a gap, so that their durations add up to the whole. They are
// rounded to microseconds at their borders, so that this is also true of what is printed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "engine/api.h"
#include "serve/why/drafts_story.h"
#include "serve/why/prefix_story.h"

namespace quire {

// One of a request's outputs.
struct OutputStory {
  RequestId output_id = 0;
  std::int32_t index = 0;     // which of the n outputs
  std::string finish_reason;  // "stop", "length", "abort", "error"; empty while it goes on
  std::int64_t num_prompt_tokens = 0;
  std::int64_t num_output_tokens = 0;
  std::int32_t num_preemptions = 0;
  Duration step_time{};        // RequestMetrics::step_time, when it has ended
  std::optional<double> cost;  // of that, in US dollars, where there is a price
  std::string caller;          // RequestOrigin::caller
  bool salted = false;         // it had a cache_salt
  Instant received{};
  std::optional<Instant> submitted;
  std::optional<Instant> arrival;  // empty: the scheduler does not have it yet, or refused it
  std::optional<Instant> end;      // when the scheduler was done with it; empty before
  std::optional<Instant> told;     // when its last piece was handed on
  std::shared_ptr<const RequestTimeline> timeline;  // null without an arrival
  std::optional<ConstraintReport> constraint;       // when it has ended, where it had one
  DraftsStory drafts;                               // likewise
};

// What a client calls one of a request's outputs: the request's id, with "#2" after it where there
// are several.
std::string output_name(const std::string& external_id, std::int64_t num_outputs,
                        std::int32_t index);

// {"index", "status", "finish_reason", "total_ms", "spans": [{"what", "cause", "start_ms",
// "duration_ms", "waited_for": {"count", "ids"}, "steps", "tokens", "cached_tokens",
// "recomputed_tokens", "because"}], "totals_ms": {...}}, where it was preempted "preemption":
// {"method", "cost_ms", "pages", "tokens", "blocks"} (core/preemption.h), where the text was
// constrained "constraint": constraint_json(), where tokens were guessed "drafts": drafts_json(),
// with a price "cost". And once it has started
// "prefix_cache": prefix_json(), and of a beam search "beams": beams_json(). `now`: for a story
// that goes on.
json::object story_json(const OutputStory& story, const RequestNames& names,
                        const PrefixNames& prefixes, Instant now);

// {"compile_ms", "cached", "masks", "mask_ms", "schema_in_prompt"}: of the request, not of this
// output alone.
json::object constraint_json(const ConstraintReport& report);

// Of an output that goes on and was not looked at in the scheduler: what is known without it, and
// {"left_out"}, why no more is; no spans.
json::object unread_story_json(const OutputStory& story, Instant now, std::string_view why);

// The same for people, one line a span.
std::string story_text(const json::object& story);

// For the answer to the request itself: where its time with the scheduler went, in short. The
// output must be finished.
json::object short_story(const RequestOutput& output);

}  // namespace quire
