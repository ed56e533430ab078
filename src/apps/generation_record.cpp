#include "apps/generation_record.h"

#include <boost/json/value_from.hpp>

namespace quire {

void Generation::add(const RequestOutput& output) {
  text += output.text;
  token_ids.insert(token_ids.end(), output.token_ids.begin(), output.token_ids.end());
  last = output;
}

json::object generation_record(const json::value& id, const Generation& generation) {
  json::object output;
  output["index"] = 0;
  output["text"] = generation.text;
  output["token_ids"] = json::value_from(generation.token_ids);
  output["finish_reason"] = nullptr;
  if (generation.last.finish_reason) {
    output["finish_reason"] = finish_reason_name(*generation.last.finish_reason);
  }
  json::object record;
  record["id"] = id;
  record["outputs"] = json::array{std::move(output)};
  record["usage"] = {{"prompt_tokens", generation.last.num_prompt_tokens},
                     {"completion_tokens", generation.last.num_output_tokens}};
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
