// The outputs of beam searches, which come all at once.
#include <utility>

#include "engine/output_processor.h"

namespace quire {

void OutputProcessor::process_beams(const Request& request) {
  const auto num_outputs = static_cast<std::size_t>(request.sampling_params()->n);
  const auto found = request.beams()->search.finished().first(num_outputs);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const RequestId output_id = request.id() + RequestId{i};
    State* state = find(output_id);
    if (state == nullptr) return;  // all of them have ended
    const BeamSearch::Beam& beam = found[i].beam;
    RequestOutput output;
    const auto begin = beam.token_ids.begin() + request.num_prompt_tokens();
    output.token_ids.assign(begin, beam.token_ids.end());
    output.logprobs.resize(output.token_ids.size());
    const std::size_t num_top = beam.top_logprobs.size() / output.token_ids.size();
    for (std::size_t place = 0; place < output.token_ids.size(); ++place) {
      output.text += state->detokenizer.add(output.token_ids[place]);
      PositionLogprobs& logprobs = output.logprobs[place];
      logprobs.token.token_id = output.token_ids[place];
      if (beam.logprobs.empty()) continue;
      logprobs.token = beam.logprobs[place];
      const auto top = beam.top_logprobs.begin() + static_cast<std::ptrdiff_t>(place * num_top);
      logprobs.top.assign(top, top + static_cast<std::ptrdiff_t>(num_top));
    }
    output.text += state->detokenizer.flush();
    output.finish_reason = found[i].stopped ? FinishReason::kStop : FinishReason::kLength;
    if (found[i].stopped) output.stop_token_id = output.token_ids.back();
    if (i == 0) output.prompt_logprobs = std::exchange(state->group->prompt_logprobs, {});
    state->num_output_tokens = std::ssize(output.token_ids);
    state->cumulative_logprob = beam.cumulative_logprob;
    finish(output_id, &request, std::move(output));
  }
}

void OutputProcessor::abort_beams(const Request& request) {
  for (RequestId i = 0; i < static_cast<RequestId>(request.sampling_params()->n); ++i) {
    if (find(request.id() + i) == nullptr) return;
    RequestOutput output;
    output.finish_reason = FinishReason::kAbort;
    finish(request.id() + i, &request, std::move(output));
  }
}

}  // namespace quire
