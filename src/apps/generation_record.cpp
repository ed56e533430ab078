#include "apps/generation_record.h"

#include <boost/json/value_from.hpp>

namespace quire {

namespace {

json::object to_json(const TokenLogprob& token) {
  json::object object = {{"token_id", token.token_id}, {"logprob", token.logprob}};
  if (token.rank > 0) object["rank"] = token.rank;
  return object;
}

json::array to_json(const std::vector<PositionLogprobs>& positions) {
  json::array array;
  array.reserve(positions.size());
  for (const PositionLogprobs& position : positions) {
    json::object entry = to_json(position.token);
    json::array top;
    for (const TokenLogprob& token : position.top) top.push_back(to_json(token));
    entry["top"] = std::move(top);
    array.push_back(std::move(entry));
  }
  return array;
}

}  // namespace

void GatheredOutputs::add(const RequestOutput& piece) {
  const auto index = static_cast<std::size_t>(piece.index);
  if (outputs.size() <= index) outputs.resize(index + 1);
  Output& output = outputs[index];
  output.text += piece.text;
  output.token_ids.insert(output.token_ids.end(), piece.token_ids.begin(), piece.token_ids.end());
  output.logprobs.insert(output.logprobs.end(), piece.logprobs.begin(), piece.logprobs.end());
  output.forced_tokens.insert(output.forced_tokens.end(), piece.forced_tokens.begin(),
                              piece.forced_tokens.end());
  output.cumulative_logprob = piece.cumulative_logprob;
  if (piece.finish_reason) output.finish_reason = piece.finish_reason;
  if (!piece.prompt_logprobs.empty()) prompt_logprobs = piece.prompt_logprobs;
  if (error.ok()) error = piece.error;
  if (piece.finished && piece.index == 0) num_cached_tokens = piece.num_cached_tokens;
  last = piece;
  last.text.clear();
  last.token_ids.clear();
  last.logprobs.clear();
  last.forced_tokens.clear();
  last.prompt_logprobs.clear();
}

std::int64_t GatheredOutputs::num_output_tokens() const {
  std::int64_t count = 0;
  for (const Output& output : outputs) count += std::ssize(output.token_ids);
  return count;
}

json::object generation_record(const json::value& id, const GatheredOutputs& generation,
                               const SamplingParams& params) {
  json::array outputs;
  for (std::size_t i = 0; i < generation.outputs.size(); ++i) {
    const GatheredOutputs::Output& from = generation.outputs[i];
    json::object output;
    output["index"] = i;
    output["text"] = from.text;
    output["token_ids"] = json::value_from(from.token_ids);
    output["finish_reason"] = nullptr;
    if (from.finish_reason) output["finish_reason"] = finish_reason_name(*from.finish_reason);
    if (params.logprobs) {
      output["cumulative_logprob"] = from.cumulative_logprob;
      output["logprobs"] = to_json(from.logprobs);
    }
    if (params.return_forced_tokens) {
      output["forced_tokens"] = json::array(from.forced_tokens.begin(), from.forced_tokens.end());
    }
    outputs.push_back(std::move(output));
  }
  json::object record;
  record["id"] = id;
  record["outputs"] = std::move(outputs);
  if (params.prompt_logprobs) record["prompt_logprobs"] = to_json(generation.prompt_logprobs);
  record["usage"] = {{"prompt_tokens", generation.last.num_prompt_tokens},
                     {"completion_tokens", generation.num_output_tokens()},
                     {"prompt_tokens_details", {{"cached_tokens", generation.num_cached_tokens}}}};
  return record;
}

RequestTimings request_timings(const RequestOutput& last) {
  RequestTimings timings;
  const RequestMetrics& metrics = last.metrics;
  if (!metrics.first_token || !metrics.finished) return timings;
  timings.ttft_s = to_seconds(*metrics.first_token - metrics.arrival);
  timings.e2e_s = to_seconds(*metrics.finished - metrics.arrival);
  if (last.num_output_tokens > 1) {
    timings.tpot_s = to_seconds(*metrics.finished - *metrics.first_token) /
                     static_cast<double>(last.num_output_tokens - 1);
  }
  return timings;
}

}  // namespace quire
