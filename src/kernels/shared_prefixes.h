// Sequences of a step whose block tables begin with the same physical blocks, so that attention can
// read these once for all of them (cascade; Ye et al. 2024, Hydragen: Juravsky et al. 2024).
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace quire {

struct AttentionBatch;

// Members [begin, end) of SharedPrefixes::members() share their first `keys` keys, whole ranges
// (attention_scratch.h) that each member's query sees all of.
struct PrefixGroup {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  std::int32_t keys = 0;
};

// Reused from step to step: find() allocates nothing once reserved.
class SharedPrefixes {
 public:
  void reserve(std::int32_t max_seqs);
  // Looks at sequences with one query each. Of the ways to group those that begin with the same
  // block, it takes those that save the most reading, one group after the other.
  void find(const AttentionBatch& batch);

  const std::vector<PrefixGroup>& groups() const { return groups_; }
  const std::vector<std::int32_t>& members() const { return members_; }  // sequences

 private:
  struct Candidate {
    BlockId first_block = 0;
    std::int32_t sequence = 0;
    std::int32_t ranges = 0;  // in common with the first of its kind
  };
  std::size_t take_group(const AttentionBatch& batch, std::size_t begin, std::size_t end);

  std::vector<Candidate> candidates_;
  std::vector<PrefixGroup> groups_;
  std::vector<std::int32_t> members_;
};

}  // namespace quire
