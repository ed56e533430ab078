#include "engine/event_log/snapshot_codec.h"

#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include "engine/event_log/bytes.h"
#include "engine/event_log/records.h"

namespace quire {
namespace {

// Each function visits the fields of one type, for reading and for writing.

template <typename Archive, typename Config>
void visit_config(Archive& archive, Config& config) {
  archive(config.max_num_seqs);
  archive(config.max_num_batched_tokens);
  archive(config.max_model_len);
  archive(config.block_size);
  archive(config.num_blocks);
  archive.list(config.kv_groups, [](auto& a, auto& group) {
    a(group.window);
    a(group.pages_per_block);
    a(group.state);
  });
  archive(config.max_queued);
  archive(config.max_steps_in_flight);
  archive(config.enable_chunked_prefill);
  archive(config.enable_prefix_caching);
  archive.enumeration(config.policy, SchedulingPolicy::kLongestPrefix);
  archive(config.max_overtaken);
  archive(config.min_prefix_in_flight);
  archive.enumeration(config.batching, Batching::kDynamic);
  archive(config.max_batch_delay);
  archive(config.max_draft_paths);
  archive(config.kv_tier);
  archive(config.max_pinned_blocks);
  archive(config.admission.waiting_served_ratio);
  archive(config.admission.max_waiting_tokens);
  archive(config.eos_token_ids);
}

template <typename Archive, typename Span>
void visit_span(Archive& archive, Span& span) {
  archive.enumeration(span.kind, SpanKind::kDecode);
  archive.enumeration(span.cause, WaitCause::kAdmissionPace);
  archive(span.blockers.count);
  for (auto& id : span.blockers.ids) archive(id);
  archive.enumeration(span.preemption.method, PreemptionMethod::kSwap);
  archive(span.preemption.cost);
  archive(span.preemption.num_pages);
  archive(span.preemption.num_tokens);
  archive(span.preemption.num_blocks);
  archive(span.begin);
  archive(span.end);
  archive(span.num_steps);
  archive(span.num_tokens);
  archive(span.num_recomputed_tokens);
  archive(span.num_cached_tokens);
}

// Where there is one.
template <typename Archive, typename Value, typename Visit>
void visit_optional(Archive& archive, Value& value, Visit visit) {
  bool present = value.has_value();
  archive(present);
  if (!present) return;
  if constexpr (std::is_const_v<Value>) {
    visit(archive, *value);
  } else {
    visit(archive, value.emplace());
  }
}

template <typename Archive, typename Timeline>
void visit_timeline(Archive& archive, Timeline& timeline) {
  archive.list(timeline.spans, [](auto& a, auto& span) { visit_span(a, span); });
  visit_optional(archive, timeline.open, [](auto& a, auto& span) { visit_span(a, span); });
  for (auto& total : timeline.wait_totals) archive(total);
  for (auto& total : timeline.totals) archive(total);
  archive(timeline.num_spans_dropped);
}

void visit_params(ByteWriter& writer, const std::shared_ptr<const SamplingParams>& params) {
  encode_params(*params, writer);
}
void visit_params(ByteReader& reader, std::shared_ptr<const SamplingParams>& params) {
  params = std::make_shared<const SamplingParams>(decode_params(reader));
}

template <typename Archive, typename Beam>
void visit_beam(Archive& archive, Beam& beam) {
  const auto logprob = [](auto& a, auto& token) { visit_logprob(a, token); };
  archive(beam.token_ids);
  archive(beam.cumulative_logprob);
  archive.list(beam.logprobs, logprob);
  archive.list(beam.top_logprobs, logprob);
  archive(beam.parent);
}

template <typename Archive, typename Beams>
void visit_beams(Archive& archive, Beams& beams) {
  archive.list(beams.beams, [](auto& a, auto& beam) { visit_beam(a, beam); });
  archive.list(beams.finished, [](auto& a, auto& finished) {
    visit_beam(a, finished.beam);
    a(finished.score);
    a(finished.stopped);
  });
  archive(beams.rows.ids);
  archive(beams.rows.num_placed);
  archive(beams.rows.num_told);
  archive(beams.num_common_tokens);
  archive(beams.num_forks);
}

template <typename Archive, typename Request>
void visit_request(Archive& archive, Request& request) {
  archive(request.request_id);
  archive(request.external_id);
  archive(request.sample_index);
  archive(request.group_id);
  archive(request.arrival_index);
  archive.enumeration(request.state, RequestState::kFinished);
  visit_params(archive, request.sampling_params);
  archive(request.token_ids);
  archive(request.num_prompt_tokens);
  archive.enumeration(request.pooling, Pooling::kMean);
  archive(request.num_computed_tokens);
  archive(request.max_computed_so_far);
  archive(request.priority);
  visit_scope(archive, request.cache_scope);
  archive(request.user);
  archive(request.deadline);
  archive(request.num_cached_tokens);
  archive(request.num_preemptions);
  archive(request.num_recomputed_tokens);
  archive(request.num_accepted_drafts);
  archive(request.num_rejected_drafts);
  archive(request.step_time);
  archive(request.arrival);
  archive(request.first_scheduled);
  archive(request.first_token);
  visit_timeline(archive, request.timeline);
  visit_optional(archive, request.beams, [](auto& a, auto& beams) { visit_beams(a, beams); });
  archive(request.fetch_id);
  archive(request.fetched);
  archive(request.num_fetched_tokens);
  archive(request.pin);
}

template <typename Archive, typename Index>
void visit_index(Archive& archive, Index& index) {
  archive(index.last_node);
  archive.list(index.nodes, [](auto& a, auto& node) {
    a(node.node);
    a(node.parent);
    a(node.num_tokens);
    visit_scope(a, node.scope);
  });
  archive(index.tokens);
  archive(index.pages);
}

template <typename Archive, typename Tables>
void visit_tables(Archive& archive, Tables& tables) {
  archive.list(tables, [](auto& a, auto& table) {
    a(table.request_id);
    a(table.block_ids);
    a(table.num_passed_tokens);
    a(table.nodes);
  });
}

// Calls part(name, visit) for each part of the state, where visit(archive, snapshot) visits it.
template <typename Part>
void for_each_part(Part part) {
  const auto requests = [](auto& a, auto& list) {
    a.list(list, [](auto& inner, auto& request) { visit_request(inner, request); });
  };
  part("configuration", [](auto& a, auto& s) { visit_config(a, s.config); });
  part("pace", [](auto& a, auto& s) { visit_pace(a, s.pace); });
  part("counters", [](auto& a, auto& s) { visit_counters(s.counters, a); });
  part("running requests", [&](auto& a, auto& s) { requests(a, s.running); });
  part("waiting requests", [&](auto& a, auto& s) { requests(a, s.waiting); });
  part("fetches", [&](auto& a, auto& s) {
    requests(a, s.fetching);
    a.list(s.fetches, [](auto& inner, auto& fetch) {
      inner(fetch.id);
      visit_scope(inner, fetch.scope);
      inner(fetch.tokens);
      inner(fetch.num_cached);
      inner(fetch.names);
    });
    a(s.last_fetch_id);
    a(s.waits_for_fetch);
  });
  part("lower tier", [](auto& a, auto& s) {
    a(s.kv.tier.on);
    a(s.kv.tier.stores);
    a(s.kv.tier.blocks);
    a(s.kv.withheld_block_ids);
  });
  part("batch", [](auto& a, auto& s) {
    a(s.num_vacancies);
    a(s.last_start);
    a.list(s.retained, [](auto& inner, auto& row) {
      inner(row.request_id);
      inner(row.num_tokens);
    });
  });
  part("pinned prefixes", [](auto& a, auto& s) {
    a.list(s.pins, [](auto& inner, auto& pin) {
      inner(pin.id);
      inner(pin.num_blocks);
      inner(pin.num_pages);
      inner(pin.num_hits);
    });
  });
  part("removed requests", [](auto& a, auto& s) {
    a(s.removed_request_ids);
    a.list(s.truncated_tables, [](auto& inner, auto& each) {
      inner(each.request_id);
      inner(each.num_blocks);
    });
    visit_replacements(a, s.adopted_blocks);
  });
  part("arrivals", [](auto& a, auto& s) { a(s.num_arrivals); });
  part("shares", [](auto& a, auto& s) {
    a.list(s.shares.users, [](auto& inner, auto& user) {
      inner(user.name);
      inner(user.served);
    });
    a(s.shares.floor);
    a(s.num_overtaken);
  });
  part("free blocks", [](auto& a, auto& s) { a(s.kv.free_block_ids); });
  part("block tables", [](auto& a, auto& s) { visit_tables(a, s.kv.tables); });
  part("prefix cache", [](auto& a, auto& s) { visit_index(a, s.kv.index); });
}

}  // namespace

void encode_snapshot(const SchedulerSnapshot& snapshot, std::vector<std::uint8_t>& out) {
  ByteWriter writer(out);
  for_each_part([&](std::string_view /*name*/, auto visit) { visit(writer, snapshot); });
}

Result<SchedulerSnapshot> decode_snapshot(std::span<const std::uint8_t> bytes) {
  SchedulerSnapshot snapshot;
  ByteReader reader(bytes);
  std::string_view broken;
  for_each_part([&](std::string_view name, auto visit) {
    visit(reader, snapshot);
    if (!reader.ok() && broken.empty()) broken = name;
  });
  if (broken.empty() && reader.size() > 0) broken = "end";
  if (broken.empty()) return snapshot;
  return Status::invalid_argument("the snapshot cannot be read: " + std::string(broken));
}

std::string snapshot_difference(const SchedulerSnapshot& a, const SchedulerSnapshot& b) {
  std::string names;
  std::vector<std::uint8_t> bytes_of_a;
  std::vector<std::uint8_t> bytes_of_b;
  for_each_part([&](std::string_view name, auto visit) {
    bytes_of_a.clear();
    bytes_of_b.clear();
    ByteWriter writer_of_a(bytes_of_a);
    ByteWriter writer_of_b(bytes_of_b);
    visit(writer_of_a, a);
    visit(writer_of_b, b);
    if (bytes_of_a == bytes_of_b) return;
    if (!names.empty()) names += ", ";
    names += name;
  });
  return names;
}

}  // namespace quire
