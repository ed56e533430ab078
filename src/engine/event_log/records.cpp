#include "engine/event_log/records.h"

#include <limits>
#include <memory>
#include <utility>

#include "engine/event_log/bytes.h"

namespace quire {
namespace {

enum class Kind : std::uint8_t {
  kAdd = 1,
  kAbort,
  kPlan,
  kResult,
  kEnd,
  kPace,
  kDrafts,
  kPrefixCacheReset,
  kTier,
  kUnpin
};

ByteWriter start_record(Kind kind, Duration since_previous, std::vector<std::uint8_t>& out) {
  out.push_back(static_cast<std::uint8_t>(kind));
  ByteWriter writer(out);
  writer(since_previous);
  return writer;
}

template <typename Archive, typename Name>
void visit_name(Archive& archive, Name& name) {
  for (auto& word : name) archive(word);
}

template <typename Archive, typename Report>
void visit_report(Archive& archive, Report& report) {
  archive(report.added);
  archive(report.removed);
  archive.list(report.fetched, [](auto& a, auto& each) {
    a(each.fetch_id);
    a(each.num_blocks);
    a(each.time);
  });
  archive(report.stores_end);
  archive(report.closed);
}

template <typename Archive, typename Plan>
void visit_changes(Archive& archive, Plan& plan) {
  archive.list(plan.truncated_tables, [](auto& a, auto& each) {
    a(each.request_id);
    a(each.num_blocks);
  });
  visit_replacements(archive, plan.adopted_blocks);
  archive(plan.removed_request_ids);
  visit_replacements(archive, plan.replaced_blocks);
  archive.list(plan.block_stores, [](auto& a, auto& each) {
    a(each.block_id);
    visit_name(a, each.name);
  });
  archive.list(plan.block_fetches, [](auto& a, auto& each) {
    a(each.fetch_id);
    a(each.block_id);
    visit_name(a, each.name);
  });
  archive.list(plan.block_copies, [](auto& a, auto& each) {
    a(each.source);
    a(each.destination);
  });
}

template <typename Archive, typename Beams>
void visit_candidates(Archive& archive, Beams& beams) {
  archive.list(beams, [](auto& a, auto& beam) {
    a(beam.index);
    a.list(beam.tokens, [](auto& inner, auto& token) { visit_logprob(inner, token); });
  });
}

// What follows a scheduled request's number of computed tokens: how many it computes, what for, and
// whether it gets blocks, has drafts, and has some on other paths than the first.
constexpr std::uint64_t kUse = 3;
constexpr std::uint64_t kNewBlocks = 4;
constexpr std::uint64_t kWithDrafts = 8;
constexpr std::uint64_t kBranched = 16;
constexpr unsigned kFlagBits = 5;

std::optional<EventRecord> decode_add(ByteReader& reader, Instant time) {
  AddRecord record;
  record.time = time;
  reader.enumeration(record.outcome, StatusCode::kInternal);
  reader(record.request.request_id);
  reader(record.request.external_id);
  reader(record.request.priority);
  visit_scope(reader, record.request.cache_scope);
  reader(record.request.user);
  reader(record.request.deadline);
  if (!plausible(record.request.deadline)) reader.fail();
  reader.enumeration(record.request.pooling, Pooling::kMean);
  reader(record.request.prompt_token_ids);
  SamplingParams params = decode_params(reader);
  reader(record.request.pin);
  const bool pooled = record.request.pooling != Pooling::kNone;
  if (pooled && (params.n != 1 || params.prompt_logprobs)) reader.fail();
  record.request.sampling_params = std::make_shared<const SamplingParams>(std::move(params));
  return record;
}

std::optional<EventRecord> decode_plan(ByteReader& reader, Instant time) {
  PlanRecord record;
  record.time = time;
  SchedulerOutput& plan = record.plan;
  reader(plan.step_id);
  visit_changes(reader, plan);
  reader.list(plan.new_requests, [&](ByteReader& r, NewRequestData& each) {
    r(each.request_id);
    r(each.num_tokens);
    r(each.num_prompt_tokens);
    r(each.sample_index);
    r(each.first_block);
    r(each.num_blocks);
  });
  RequestId id = 0;
  reader.list(plan.scheduled, [&](ByteReader& r, ScheduledRequest& each) {
    id += static_cast<RequestId>(r.difference());
    each.request_id = id;
    r(each.num_computed_tokens);
    const std::uint64_t number = r.varint();
    const std::uint64_t num_scheduled = number >> kFlagBits;
    if (num_scheduled == 0 || num_scheduled > std::numeric_limits<std::int32_t>::max()) r.fail();
    each.num_scheduled_tokens = static_cast<std::int32_t>(num_scheduled & 0x7FFF'FFFF);
    if ((number & kUse) > static_cast<std::uint64_t>(RowUse::kState)) r.fail();
    each.use = static_cast<RowUse>(number & kUse);
    if ((number & kNewBlocks) != 0) {
      r(each.first_new_block);
      r(each.num_new_blocks);
    }
    if ((number & kWithDrafts) != 0) {
      r(each.num_drafts);
      if (each.num_drafts < 1 || each.num_drafts > kMaxDrafts) r.fail();
    }
    if ((number & kBranched) != 0) {
      r(each.num_branched);
      r(each.num_branch_blocks);
      if (each.num_branched < 1 || each.num_branched >= each.num_drafts) r.fail();
    }
    plan.total_num_scheduled_tokens += each.num_scheduled_tokens;
  });
  reader(plan.new_block_ids);
  return record;
}

}  // namespace

void encode_added(const AddRequest& request, StatusCode outcome, Duration since_previous,
                  std::vector<std::uint8_t>& out) {
  ByteWriter writer = start_record(Kind::kAdd, since_previous, out);
  writer.enumeration(outcome, StatusCode::kInternal);
  writer(request.request_id);
  writer(std::string_view(request.external_id));
  writer(request.priority);
  visit_scope(writer, request.cache_scope);
  writer(std::string_view(request.user));
  writer(request.deadline);
  writer.enumeration(request.pooling, Pooling::kMean);
  writer(request.prompt_token_ids);
  encode_params(*request.sampling_params, writer);
  writer(request.pin);
}

void encode_aborted(RequestId request_id, bool found, Duration since_previous,
                    std::vector<std::uint8_t>& out) {
  ByteWriter writer = start_record(Kind::kAbort, since_previous, out);
  writer(request_id);
  writer(found);
}

void encode_plan(const SchedulerOutput& plan, Duration since_previous,
                 std::vector<std::uint8_t>& out) {
  ByteWriter writer = start_record(Kind::kPlan, since_previous, out);
  writer(plan.step_id);
  visit_changes(writer, plan);
  writer.list(plan.new_requests, [&](ByteWriter& w, const NewRequestData& each) {
    w(each.request_id);
    w(each.num_tokens);
    w(each.num_prompt_tokens);
    w(each.sample_index);
    w(each.first_block);
    w(each.num_blocks);
  });
  RequestId previous_id = 0;
  writer.list(plan.scheduled, [&](ByteWriter& w, const ScheduledRequest& each) {
    w.difference(static_cast<std::int64_t>(each.request_id - previous_id));
    previous_id = each.request_id;
    w(each.num_computed_tokens);
    w.varint(static_cast<std::uint64_t>(each.num_scheduled_tokens) << kFlagBits |
             static_cast<std::uint64_t>(each.use) | (each.num_new_blocks > 0 ? kNewBlocks : 0) |
             (each.num_drafts > 0 ? kWithDrafts : 0) | (each.num_branched > 0 ? kBranched : 0));
    if (each.num_new_blocks > 0) {
      w(each.first_new_block);
      w(each.num_new_blocks);
    }
    if (each.num_drafts > 0) w(each.num_drafts);
    if (each.num_branched > 0) {
      w(each.num_branched);
      w(each.num_branch_blocks);
    }
  });
  writer(plan.new_block_ids);
}

void encode_result(const ModelRunnerOutput& result, Duration since_previous,
                   std::vector<std::uint8_t>& out) {
  ByteWriter writer = start_record(Kind::kResult, since_previous, out);
  writer.list(result.sampled, [](ByteWriter& w, const SampledToken& each) { w(each.token_id); });
  std::vector<BeamCandidates> beams;
  for (std::size_t i = 0; i < result.sampled.size(); ++i) {
    const SampledToken& token = result.sampled[i];
    if (!token.is_beam) continue;
    const auto first = result.top_logprobs.begin() + token.first_top_logprob;
    beams.push_back({.index = i, .tokens = {first, first + token.num_top_logprobs}});
  }
  visit_candidates(writer, beams);
}

bool take_candidates(const std::vector<BeamCandidates>& beams, ModelRunnerOutput& result) {
  for (const BeamCandidates& beam : beams) {
    if (beam.index >= result.sampled.size()) return false;
    SampledToken& token = result.sampled[beam.index];
    token.is_beam = true;
    token.first_top_logprob = static_cast<std::int32_t>(result.top_logprobs.size());
    token.num_top_logprobs = static_cast<std::int32_t>(beam.tokens.size());
    result.top_logprobs.insert(result.top_logprobs.end(), beam.tokens.begin(), beam.tokens.end());
  }
  return true;
}

void encode_ended(const Status& reason, Duration since_previous, std::vector<std::uint8_t>& out) {
  ByteWriter writer = start_record(Kind::kEnd, since_previous, out);
  writer(std::string_view(reason.message()));
}

void encode_paced(const StepPace& pace, Duration since_previous, std::vector<std::uint8_t>& out) {
  ByteWriter writer = start_record(Kind::kPace, since_previous, out);
  visit_pace(writer, pace);
}

// Parents as how far before a token they are; none of a chain.
void encode_drafts(RequestId request_id, DraftTreeView drafts, Duration since_previous,
                   std::vector<std::uint8_t>& out) {
  ByteWriter writer = start_record(Kind::kDrafts, since_previous, out);
  writer(request_id);
  writer.varint(drafts.tokens().size());
  for (const TokenId token : drafts.tokens()) writer(token);
  const bool chain = num_on_first_path(drafts) == drafts.size();
  const std::int32_t num_parents = chain ? 0 : drafts.size();
  writer.varint(static_cast<std::uint64_t>(num_parents));
  for (std::int32_t i = 0; i < num_parents; ++i) writer(i - drafts.parent(i));
}

void encode_prefix_cache_reset(Duration since_previous, std::vector<std::uint8_t>& out) {
  start_record(Kind::kPrefixCacheReset, since_previous, out);
}

void encode_unpinned(PinId pin_id, bool found, Duration since_previous,
                     std::vector<std::uint8_t>& out) {
  ByteWriter writer = start_record(Kind::kUnpin, since_previous, out);
  writer(pin_id);
  writer(found);
}

void encode_tier_report(const TierReport& report, Duration since_previous,
                        std::vector<std::uint8_t>& out) {
  ByteWriter writer = start_record(Kind::kTier, since_previous, out);
  visit_report(writer, report);
}

std::optional<EventRecord> decode_record(ByteReader& reader, Instant& time) {
  Kind kind{};
  reader.enumeration(kind, Kind::kUnpin);
  Duration since_previous{};
  reader(since_previous);
  if (since_previous < -kMaxInstant || since_previous > kMaxInstant) reader.fail();
  if (!reader.ok()) return std::nullopt;
  time += since_previous;
  if (!plausible(time)) reader.fail();
  std::optional<EventRecord> record;
  switch (kind) {
    case Kind::kAdd:
      record = decode_add(reader, time);
      break;
    case Kind::kAbort: {
      AbortRecord abort{.time = time};
      reader(abort.request_id);
      reader(abort.found);
      record = abort;
      break;
    }
    case Kind::kPlan:
      record = decode_plan(reader, time);
      break;
    case Kind::kResult: {
      ResultRecord result{.time = time, .sampled = {}, .beams = {}};
      reader(result.sampled);
      visit_candidates(reader, result.beams);
      record = std::move(result);
      break;
    }
    case Kind::kEnd: {
      EndRecord end{.time = time, .reason = {}};
      reader(end.reason);
      record = std::move(end);
      break;
    }
    case Kind::kPace: {
      PaceRecord paced{.time = time, .pace = {}};
      visit_pace(reader, paced.pace);
      if (!paced.pace.validate().ok()) reader.fail();
      record = paced;
      break;
    }
    case Kind::kDrafts: {
      DraftRecord proposed{.time = time, .drafts = {}};
      reader(proposed.request_id);
      reader(proposed.drafts.tokens);
      for (const TokenId token : proposed.drafts.tokens) {
        if (token < 0) reader.fail();
      }
      reader(proposed.drafts.parents);
      for (std::size_t i = 0; i < proposed.drafts.parents.size(); ++i) {
        std::int32_t& parent = proposed.drafts.parents[i];
        parent = static_cast<std::int32_t>(i) - std::clamp(parent, 0, kMaxDrafts + 1);
      }
      if (!proposed.drafts.view().valid()) reader.fail();
      record = std::move(proposed);
      break;
    }
    case Kind::kTier: {
      TierRecord told{.time = time, .report = {}};
      visit_report(reader, told.report);
      record = std::move(told);
      break;
    }
    case Kind::kUnpin: {
      UnpinRecord unpin{.time = time};
      reader(unpin.pin_id);
      reader(unpin.found);
      record = unpin;
      break;
    }
    case Kind::kPrefixCacheReset:
      record = PrefixCacheResetRecord{.time = time};
      break;
  }
  return reader.ok() ? std::move(record) : std::nullopt;
}

}  // namespace quire
