// How a beam search stands, in numbers: what explains it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace quire {

// Why a search is over.
enum class BeamEnd : std::uint8_t {
  kMaxTokens,      // its beams are as long as an output may be
  kEarlyStopping,  // as many outputs are finished as it has beams, and it is to stop then
  kUnlikely,       // and its beams would score no better than the worst of these
  kNoCandidates,   // each next token would end an output
};
std::string_view beam_end_name(BeamEnd end);  // "max_tokens" and so on

struct BeamReport {
  std::int32_t width = 0;
  std::int32_t num_live = 0;      // beams that go on, or that were left when it ended
  std::int32_t num_tokens = 0;    // of the output so far of each; of all that were followed at most
  std::int32_t num_finished = 0;  // outputs that are finished and kept
  std::int64_t num_forks = 0;     // how often a beam went on as one more than one
  std::optional<double> best_score = {};   // of what is finished
  std::optional<double> worst_score = {};  // likewise
  // By a beam that goes on, as far as the rules look ahead.
  std::optional<double> best_reachable = {};
  std::optional<BeamEnd> end = {};

  bool operator==(const BeamReport&) const = default;
};

}  // namespace quire
