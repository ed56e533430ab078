// Requests that between them use every op and every way of choosing tokens, and all that they give,
// for whoever compares devices bit for bit.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/api.h"
#include "support/collector.h"

namespace quire::test {

struct Results {
  std::vector<std::vector<Output>> outputs;
  std::vector<std::uint32_t> numbers;  // bits: of prompts' log probabilities, of hidden states

  bool operator==(const Results&) const = default;
};

// Settings of an engine for these requests.
EngineArgs args_of(const std::string& model);

// `preempts`: whether some of them are to be preempted. Nothing where something fails.
Results run_requests(Result<std::unique_ptr<Engine>> made, bool preempts = false);

}  // namespace quire::test
