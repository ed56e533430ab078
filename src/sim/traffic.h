// What arrives when at simulated servers: made up, or read from a trace. Prompts are made when they
// arrive, from the ids of what they begin with, so that a million of them need little memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "core/request.h"
#include "sim/recorded_drafts.h"

namespace quire {

struct Arrival {
  Instant time{};
  std::int32_t input_len = 0;   // >= 1
  std::int32_t output_len = 0;  // >= 1
  std::int32_t priority = 0;
  // As AddRequest has them.
  Duration deadline = kDefaultDeadline;
  std::string user;
  CacheScope cache_scope;
  // Pieces of Traffic::piece_len tokens that the prompt begins with: equal ids are equal tokens.
  std::vector<std::uint64_t> pieces;
  std::vector<TokenId> token_ids;  // prompt and output, where they are known; empty otherwise
  std::vector<DraftedStep> steps;  // with its outputs, of an event log
};

struct Traffic {
  std::vector<Arrival> arrivals;  // in order of time
  std::int32_t piece_len = 512;
  std::string source;  // for people
};

// The prompt of an arrival: what no piece says is that of this arrival alone.
std::vector<TokenId> prompt_of(const Traffic& traffic, std::size_t index);
// The token at this place of its sequence, behind the prompt.
TokenId output_of(const Traffic& traffic, std::size_t index, std::int64_t place);
// More than any of these.
inline constexpr TokenId kNoOutput = 1 << 20;

// How lengths are spread around their mean.
enum class LengthSpread : std::uint8_t {
  kFixed,
  kUniform,    // from half of it to one and a half
  kGeometric,  // as of outputs that may end at any token: many short ones, few very long
};

struct TrafficConfig {
  std::uint64_t seed = 0;
  std::int64_t num_requests = 0;
  double qps = 0;  // a Poisson process; 0: all are there at once
  std::int64_t input_len = 1;
  std::int64_t output_len = 1;
  LengthSpread spread = LengthSpread::kUniform;
  std::int64_t max_len = 0;  // of prompt and output together: longer ones are cut
  // Prompts begin with one of so many prefixes of so many tokens; 0: with nothing that is shared.
  std::int64_t num_prefixes = 0;
  std::int64_t prefix_len = 0;
};

Traffic make_traffic(const TrafficConfig& config);

// A trace in one of two public layouts, told apart by their first line. Azure's LLM inference
// traces (Azure/AzurePublicDataset, 2023 and 2024): lines of "TIMESTAMP,ContextTokens,
// GeneratedTokens" with a date. Mooncake's (kvcache-ai/Mooncake, arXiv 2407.00079): a JSON object a
// line with timestamp in milliseconds, input_length, output_length and hash_ids, one for each 512
// tokens. `text` is the file's, `name` is for messages. kInvalidArgument naming the line.
Result<Traffic> parse_trace(std::string_view text, std::string_view name);

}  // namespace quire
