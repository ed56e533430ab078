#include "apps/top/live_event.h"

#include <utility>

#include <fmt/format.h>

#include "apps/error_message.h"
#include "base/printable.h"

namespace quire {
namespace {

constexpr StatusCode kBroken = StatusCode::kInvalidArgument;

Status not_as_expected(std::string_view what) {
  return Status::invalid_argument(fmt::format("the server's event: {}", what),
                                  "is it a Quire server of this version?");
}

Result<LiveSequence> read_sequence(const json::value& value) {
  if (!value.is_object()) return not_as_expected("a request is no object");
  const JsonReader fields(value.get_object(), "event: request", kBroken);
  LiveSequence each;
  QUIRE_ASSIGN_OR_RETURN(each.id, fields.get_string("id"));
  QUIRE_ASSIGN_OR_RETURN(each.index, fields.get_int("index"));
  QUIRE_ASSIGN_OR_RETURN(each.computed_tokens, fields.get_int("computed_tokens"));
  QUIRE_ASSIGN_OR_RETURN(each.known_tokens, fields.get_int("known_tokens"));
  QUIRE_ASSIGN_OR_RETURN(each.max_tokens, fields.get_int("max_tokens"));
  QUIRE_ASSIGN_OR_RETURN(each.blocks, fields.get_int("blocks"));
  QUIRE_ASSIGN_OR_RETURN(each.age_s, fields.get_double("age_s"));
  QUIRE_ASSIGN_OR_RETURN(const auto wait, fields.find_string("wait"));
  QUIRE_ASSIGN_OR_RETURN(const auto waited, fields.find_double("waited_s"));
  each.id = printable(each.id);
  each.wait = printable(wait.value_or(""));
  each.waited_s = waited.value_or(0);
  return each;
}

Result<std::vector<LiveSequence>> read_sequences(const JsonReader& state, std::string_view key) {
  const json::value* list = state.find(key);
  if (list == nullptr || !list->is_array()) return state.type_error(key, "an array");
  std::vector<LiveSequence> sequences;
  for (const json::value& value : list->get_array()) {
    QUIRE_ASSIGN_OR_RETURN(LiveSequence each, read_sequence(value));
    sequences.push_back(std::move(each));
  }
  return sequences;
}

Status read_blocks(const JsonReader& state, LiveEvent& event) {
  QUIRE_ASSIGN_OR_RETURN(const JsonReader blocks, state.get_object("blocks"));
  QUIRE_ASSIGN_OR_RETURN(event.blocks_total, blocks.get_int("total"));
  QUIRE_ASSIGN_OR_RETURN(event.blocks_used, blocks.get_int("used"));
  QUIRE_ASSIGN_OR_RETURN(event.blocks_shared, blocks.get_int("shared"));
  QUIRE_ASSIGN_OR_RETURN(event.blocks_cached, blocks.get_int("cached"));
  return {};
}

Status read_rates(const JsonReader& state, LiveEvent& event) {
  event.has_rates = state.contains("per_second");
  if (!event.has_rates) return {};
  QUIRE_ASSIGN_OR_RETURN(const JsonReader rates, state.get_object("per_second"));
  QUIRE_ASSIGN_OR_RETURN(event.output_tokens, rates.get_double("output_tokens"));
  QUIRE_ASSIGN_OR_RETURN(event.prompt_tokens, rates.get_double("prompt_tokens"));
  QUIRE_ASSIGN_OR_RETURN(event.requests, rates.get_double("requests"));
  QUIRE_ASSIGN_OR_RETURN(event.steps, rates.get_double("steps"));
  return {};
}

Status read_speculation(const JsonReader& state, LiveEvent& event) {
  if (!state.contains("speculation")) return {};
  QUIRE_ASSIGN_OR_RETURN(const JsonReader fields, state.get_object("speculation"));
  LiveSpeculation speculation;
  QUIRE_ASSIGN_OR_RETURN(speculation.method, fields.get_string("method"));
  QUIRE_ASSIGN_OR_RETURN(speculation.draft_tokens, fields.get_int("draft_tokens"));
  QUIRE_ASSIGN_OR_RETURN(speculation.accepted_tokens, fields.get_int("accepted_tokens"));
  QUIRE_ASSIGN_OR_RETURN(speculation.speedup, fields.find_double("speedup"));
  speculation.method = printable(speculation.method);
  event.speculation = std::move(speculation);
  return {};
}

Result<LiveRank> read_rank(const JsonReader& latency, std::string_view key) {
  QUIRE_ASSIGN_OR_RETURN(const JsonReader values, latency.get_object(key));
  LiveRank rank;
  QUIRE_ASSIGN_OR_RETURN(rank.p50_ms, values.find_double("p50_ms"));
  QUIRE_ASSIGN_OR_RETURN(rank.p99_ms, values.find_double("p99_ms"));
  return rank;
}

Status read_latency(const JsonReader& state, LiveEvent& event) {
  if (!state.contains("latency")) return {};
  QUIRE_ASSIGN_OR_RETURN(const JsonReader latency, state.get_object("latency"));
  QUIRE_ASSIGN_OR_RETURN(event.first_token, read_rank(latency, "first_token"));
  QUIRE_ASSIGN_OR_RETURN(event.inter_token, read_rank(latency, "inter_token"));
  return {};
}

// [step, start, duration, slot, request, tokens, ...] of the last of the steps.
Status read_last_step(const JsonReader& event, std::vector<LiveRow>& rows) {
  constexpr std::size_t kHead = 3;
  constexpr std::size_t kRow = 3;
  const json::value* steps = event.find("steps");
  if (steps == nullptr || !steps->is_array()) return event.type_error("steps", "an array");
  if (steps->get_array().empty()) return {};
  const json::value& last = steps->get_array().back();
  if (!last.is_array()) return not_as_expected("a step is no array");
  const json::array& numbers = last.get_array();
  for (std::size_t i = kHead; i + kRow <= numbers.size(); i += kRow) {
    const auto number = [&](std::size_t offset) {
      const std::int64_t* value = numbers[i + offset].if_int64();
      return value == nullptr ? -1 : *value;
    };
    rows.push_back({.slot = number(0), .request = number(1), .tokens = number(2)});
  }
  return {};
}

}  // namespace

Result<LiveEvent> parse_live_event(std::string_view text) {
  QUIRE_ASSIGN_OR_RETURN(const json::value value, parse_json(text, "the server's event"));
  if (!value.is_object()) return not_as_expected("it is no object");
  if (const auto message = error_message(value)) return Status::unavailable(printable(*message));
  const JsonReader fields(value.get_object(), "event", kBroken);
  QUIRE_ASSIGN_OR_RETURN(const JsonReader state, fields.get_object("state"));
  QUIRE_ASSIGN_OR_RETURN(const JsonReader engine, state.get_object("engine"));
  LiveEvent event;
  QUIRE_ASSIGN_OR_RETURN(event.model, engine.get_string("model"));
  event.model = printable(event.model);
  QUIRE_ASSIGN_OR_RETURN(event.max_num_seqs, engine.get_int("max_num_seqs"));
  QUIRE_ASSIGN_OR_RETURN(event.time_s, state.get_double("time_s"));
  QUIRE_ASSIGN_OR_RETURN(event.num_running, state.get_int("num_running"));
  QUIRE_ASSIGN_OR_RETURN(event.num_waiting, state.get_int("num_waiting"));
  QUIRE_ASSIGN_OR_RETURN(event.running, read_sequences(state, "running"));
  QUIRE_ASSIGN_OR_RETURN(event.waiting, read_sequences(state, "waiting"));
  QUIRE_ASSIGN_OR_RETURN(const JsonReader totals, state.get_object("totals"));
  QUIRE_ASSIGN_OR_RETURN(event.preemptions, totals.get_int("preemptions"));
  QUIRE_RETURN_IF_ERROR(read_blocks(state, event));
  QUIRE_RETURN_IF_ERROR(read_speculation(state, event));
  QUIRE_RETURN_IF_ERROR(read_rates(state, event));
  QUIRE_RETURN_IF_ERROR(read_latency(state, event));
  QUIRE_RETURN_IF_ERROR(read_last_step(fields, event.last_step));
  return event;
}

}  // namespace quire
