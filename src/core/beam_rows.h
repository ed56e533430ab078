// Which sequences of the executor the beams of a request are. A beam search of width w has the ids
// request_id .. request_id + w - 1 for them; a beam keeps its parent's id, and its block table,
// unless another child of the same parent goes before it: then it gets one that no beam has any
// more, and a fork of the parent's table.
//
//   step   beams (id)           next: their parents     ids        what becomes of tables
//   1      A                    A A                     0 1        0 forks to 1
//   2      B(0) C(1)            C C                     1 0        0 is dropped, 1 forks to 0
//
// Since tokens and tables change places with each step, the executor is told of all of them again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "core/beam_search.h"

namespace quire {

class BeamRows {
 public:
  // One beam, which has no table yet.
  BeamRows(RequestId request_id, std::int32_t width);

  // Of each beam, the best first.
  std::span<const RequestId> ids() const { return ids_; }
  // Those that have a block table: of the first beams so many. Before they part, the first one
  // computes what all have in common; the others fork from it then.
  std::span<const RequestId> placed() const { return ids().first(num_placed_); }
  // Of these, those that the executor knows.
  std::span<const RequestId> told() const { return ids().first(num_told_); }

  void place_first() { num_placed_ = 1; }
  // Each beam but the first is to have a fork of the first one's table now.
  void place_all() { num_placed_ = ids_.size(); }
  void tell_all_placed() { num_told_ = num_placed_; }
  void lose_all();  // tables and what the executor knows: preempted

  // What the search has made of the beams that were placed: first the tables of `dropped` are to be
  // freed, then each of `forks` is made. The executor knows none of the rows then.
  struct Fork {
    RequestId parent = 0;
    RequestId child = 0;
  };
  struct Changes {
    std::vector<RequestId> dropped;
    std::vector<Fork> forks;
  };
  Changes follow(std::span<const BeamSearch::Beam> beams);

  struct Snapshot {
    std::vector<RequestId> ids;
    std::uint64_t num_placed = 0;
    std::uint64_t num_told = 0;
  };
  Snapshot snapshot() const { return {ids_, num_placed_, num_told_}; }
  // kInvalidArgument for what cannot be of so many beams.
  static Result<BeamRows> restore(const Snapshot& snapshot, RequestId request_id,
                                  std::int32_t width, std::size_t num_beams);

 private:
  RequestId request_id_;
  std::int32_t width_;
  std::vector<RequestId> ids_;
  std::size_t num_placed_ = 0;
  std::size_t num_told_ = 0;
};

// A beam search that is carried out for a request.
struct Beams {
  BeamSearch search;
  BeamRows rows;
  std::int32_t num_common_tokens;  // BeamSearch::num_common_tokens() when it last started
};

}  // namespace quire
