// What an event log contains: the calls of a scheduler, in their order. docs/event_log.md describes
// the bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "core/scheduler.h"
#include "core/step.h"

namespace quire {

struct AddRecord {
  Instant time{};
  AddRequest request;
  StatusCode outcome = StatusCode::kOk;  // else it was refused
};
struct AbortRecord {
  Instant time{};
  RequestId request_id = 0;
  bool found = false;
};
// Also of an empty plan, for it may change why a request waits. The tokens of its new requests are
// those of the requests; the record has only how many there are.
struct PlanRecord {
  Instant time{};
  SchedulerOutput plan;
};
// What a beam's row gave its search to choose from.
struct BeamCandidates {
  std::uint64_t index = 0;  // of its token in ResultRecord::sampled
  std::vector<TokenLogprob> tokens;
};
// The result of the plan before it, as far as a scheduler looks at it: of a request with drafts
// there are tokens up to the first that is not what was guessed, so the plan says whose each is.
struct ResultRecord {
  Instant time{};
  std::vector<TokenId> sampled;  // in the order of the plan
  std::vector<BeamCandidates> beams;
};
struct EndRecord {
  Instant time{};
  std::string reason;
};

// The scheduler was given another pace.
struct PaceRecord {
  Instant time{};
  StepPace pace;  // valid
};

// A running request was given drafts in place of those that it had.
struct DraftRecord {
  Instant time{};
  RequestId request_id = 0;
  DraftTree drafts;  // valid
};

// The prefix cache has forgotten all that no request used.
struct PrefixCacheResetRecord {
  Instant time{};
};

// A pinned prefix was let go.
struct UnpinRecord {
  Instant time{};
  PinId pin_id = 0;
  bool found = false;
};

// What has become of the lower tier.
struct TierRecord {
  Instant time{};
  TierReport report;
};

using EventRecord =
    std::variant<AddRecord, AbortRecord, PlanRecord, ResultRecord, EndRecord, PaceRecord,
                 DraftRecord, PrefixCacheResetRecord, TierRecord, UnpinRecord>;

// Puts them where a scheduler finds them, behind the sampled tokens that are there. False: one is
// of no token.
bool take_candidates(const std::vector<BeamCandidates>& beams, ModelRunnerOutput& result);

// Appends one record to `out`. `since_previous`: the time since the record before it.
void encode_added(const AddRequest& request, StatusCode outcome, Duration since_previous,
                  std::vector<std::uint8_t>& out);
void encode_aborted(RequestId request_id, bool found, Duration since_previous,
                    std::vector<std::uint8_t>& out);
void encode_plan(const SchedulerOutput& plan, Duration since_previous,
                 std::vector<std::uint8_t>& out);
void encode_result(const ModelRunnerOutput& result, Duration since_previous,
                   std::vector<std::uint8_t>& out);
void encode_ended(const Status& reason, Duration since_previous, std::vector<std::uint8_t>& out);
void encode_paced(const StepPace& pace, Duration since_previous, std::vector<std::uint8_t>& out);
void encode_drafts(RequestId request_id, DraftTreeView drafts, Duration since_previous,
                   std::vector<std::uint8_t>& out);
void encode_prefix_cache_reset(Duration since_previous, std::vector<std::uint8_t>& out);
void encode_unpinned(PinId pin_id, bool found, Duration since_previous,
                     std::vector<std::uint8_t>& out);
void encode_tier_report(const TierReport& report, Duration since_previous,
                        std::vector<std::uint8_t>& out);

class ByteReader;
// The next record; nullopt where the bytes are none, or say what no scheduler may be given.
// `time` is that of the record before it, and becomes its own.
std::optional<EventRecord> decode_record(ByteReader& reader, Instant& time);

template <typename Archive, typename Replacements>
void visit_replacements(Archive& archive, Replacements& replacements) {
  archive.list(replacements, [](auto& a, auto& each) {
    a(each.request_id);
    a(each.index);
    a(each.block_id);
  });
}

// One description of a scope of cached prefixes for both directions.
template <typename Archive, typename Scope>
void visit_scope(Archive& archive, Scope& scope) {
  archive(scope.high);
  archive(scope.low);
}

// One description of a token's log probability for both directions.
template <typename Archive, typename Token>
void visit_logprob(Archive& archive, Token& token) {
  archive(token.token_id);
  archive(token.logprob);
  archive(token.rank);
}

// One description of a pace for both directions.
template <typename Archive, typename Pace>
void visit_pace(Archive& archive, Pace& pace) {
  archive(pace.max_step);
  archive(pace.max_prompt_tokens);
  archive(pace.cost.step);
  archive(pace.cost.row);
  archive(pace.cost.row_keys);
  archive(pace.cost.prompt_token);
  archive(pace.cost.prompt_keys);
  archive(pace.block_fetch);
}

// One description of the parameters of a request for both directions; see bytes.h.
class ByteWriter;
void encode_params(const SamplingParams& params, ByteWriter& writer);
// The reader fails where they are not valid.
SamplingParams decode_params(ByteReader& reader);

}  // namespace quire
