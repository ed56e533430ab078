// Guesses at a request's next tokens. What is guessed never changes an output, only how many steps
// it takes: the executor checks each guess against the token that it samples there. Drafters of
// this folder look at tokens alone; one that computes hidden states is exec's.
//
//   drafter.begin(id, max_tokens);
//   drafter.read(id, tokens);               // while a step runs: long prompts
//   drafter.draft(id, tokens, most, draft); // between two steps, microseconds
//   drafter.end(id, output);
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"
#include "draft/speculative_config.h"

namespace quire {

struct Draft {
  std::vector<TokenId> tokens;
  std::int32_t match = 0;  // so many tokens before them were found elsewhere: the more, the better
};

class Drafter {
 public:
  virtual ~Drafter() = default;

  // A request of at most `max_tokens` tokens begins. False: there is no memory left for it within
  // the drafter's limit, and nothing will be guessed for it.
  virtual bool begin(RequestId request_id, std::size_t max_tokens) = 0;
  // Takes in a request's tokens, which begin with those taken in before.
  virtual void read(RequestId request_id, std::span<const TokenId> tokens) = 0;
  // Up to `most` guesses at what follows `tokens`, all of the request's; none is common.
  virtual void draft(RequestId request_id, std::span<const TokenId> tokens, std::int32_t most,
                     Draft& draft) = 0;
  // The request has ended, with this output.
  virtual void end(RequestId request_id, std::span<const TokenId> output) = 0;
};

// Memory that drafters of this folder take at most for the texts of requests, and for outputs of
// others: a request for which there is none left is decoded without drafts.
inline constexpr std::uint64_t kMaxDrafterBytes = std::uint64_t{64} << 20;
inline constexpr std::int64_t kMaxSharedTokens = std::int64_t{1} << 19;

// Of an engine of so many requests of at most so many tokens at once.
std::uint64_t drafter_bytes(const SpeculativeConfig& config, std::int64_t max_num_seqs,
                            std::int64_t max_model_len);
std::unique_ptr<Drafter> make_drafter(const SpeculativeConfig& config, std::int64_t max_num_seqs,
                                      std::int64_t max_model_len);

}  // namespace quire
