// Applies what requests ask for to their logits: masks, biases, bans, penalties.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kernels/sampling_args.h"

namespace quire {

// Scratch of one worker.
class LogitEditor {
 public:
  explicit LogitEditor(std::int64_t vocab_size);
  static std::uint64_t bytes(std::int64_t vocab_size);

  // Changes `logits` ([vocab_size]).
  void apply(const LogitEdits& edits, std::span<float> logits);

 private:
  static void keep_masked(std::span<const std::uint32_t> mask, std::span<float> logits);
  void keep_allowed(std::span<const TokenId> allowed, std::span<float> logits);
  void ban(std::span<const TokenId> banned, std::span<float> logits);
  void penalize(const LogitEdits& edits, std::span<float> logits);

  std::vector<std::uint32_t> counts_;  // [vocab_size], zero between calls
  std::vector<float> saved_;           // the logits of what is banned
};

}  // namespace quire
