// What a beam search must give: the outputs that transformers' algorithm finds, written down anew
// as it stands there, with all tokens of the vocabulary and scores of minus a billion for what is
// not there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/scheduler.h"

namespace quire {

// The best first.
std::vector<std::vector<TokenId>> solo_beam_search(const AddRequest& request,
                                                   const SchedulerConfig& config,
                                                   std::int32_t vocab_size);

// Empty, or how the outputs of a search that has ended differ from these.
std::string beam_error(const Request& request, const std::vector<std::vector<TokenId>>& expected);

// Tokens that a request's outputs got in all: a search those of all its beams, in all its steps.
std::int64_t num_given_tokens(const Request& request);

// Of a plan's new requests those that start, and not the beams that go on with other tokens.
// `running`: those that ran before the plan, with how often each had been preempted.
SchedulerOutput without_beams_that_go_on(
    const Scheduler& scheduler, const SchedulerOutput& plan,
    const std::vector<std::pair<RequestId, std::int32_t>>& running);

}  // namespace quire
