// The vectors that prompts are pooled to, from one step to the next. States are added up in the
// order of their tokens and in double precision, so that no bit depends on how steps cut a prompt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/recycled_map.h"
#include "base/status.h"
#include "core/step.h"

namespace quire {

class Pooler {
 public:
  // For so many requests at once. All memory is reserved here.
  Pooler(std::int64_t max_num_seqs, std::int64_t hidden_size);
  static std::uint64_t bytes(std::int64_t max_num_seqs, std::int64_t hidden_size);

  // Forgets the requests that a step removes and begins those that are new and pooled.
  void prepare(const SchedulerOutput& step);
  // Where the final states of a part of the step's rows go: max_num_seqs of them.
  std::vector<float>& states() { return states_; }
  // The next token's state of a request, the one at `row` of states().
  void add(RequestId request_id, std::size_t row);
  // The results of those whose prompts end in this step. kBadModel where one is not finite.
  Status give(const SchedulerOutput& step, ModelRunnerOutput& result);

 private:
  struct Sum {
    std::int64_t num_states = 0;
    std::vector<double> values;  // [hidden_size]
  };

  std::size_t hidden_size_;
  RecycledMap<Sum> sums_;
  std::vector<float> states_;  // [max_num_seqs][hidden_size]
};

}  // namespace quire
