// One finished generation, and the JSON record that stands for it in `--json` and in batch output:
//   {"id", "outputs": [{"index", "text", "token_ids", "finish_reason"}],
//    "usage": {"prompt_tokens", "completion_tokens"}}
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "engine/api.h"

namespace quire {

// Gathers a request's outputs.
struct Generation {
  std::string text;
  std::vector<TokenId> token_ids;
  RequestOutput last;  // the latest output; the final one once `last.finished`

  void add(const RequestOutput& output);
};

json::object generation_record(const json::value& id, const Generation& generation);

// Seconds of one finished request.
struct RequestTimings {
  double ttft_s = 0;  // arrival to first token
  double tpot_s = 0;  // between output tokens, mean; 0 with fewer than two
  double e2e_s = 0;   // arrival to end
};
RequestTimings request_timings(const RequestOutput& last);

}  // namespace quire
