// What an event log says of the drafts of its server: at which places they were made, how many, and
// which of them were right. A run that is simulated asks it what would have been guessed there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace quire {

// A step that gave an output tokens, the first of which is at `place` of its sequence.
struct DraftedStep {
  std::int32_t place = 0;
  std::int32_t num_drafts = 0;  // guesses at this token and those behind it
  std::int32_t num_right = 0;   // of these, counted from the first to the first wrong one
};

class RecordedDrafts {
 public:
  // `requests`: of each its steps in any order; a place that was computed again counts as the last
  // time.
  explicit RecordedDrafts(std::vector<std::vector<DraftedStep>> requests);

  // The most drafts of a step.
  std::size_t most() const { return most_; }

  // How many guesses there are for a step of request number `index` that begins at `place`, at most
  // `limit`: where a recorded step began as many as it had, or `limit` if it had the most;
  // elsewhere `limit` as often as the request's steps had any.
  std::size_t count(std::size_t index, std::int64_t place, std::size_t limit) const;

  // How likely a guess at the token at `place` is right where those before it in its step are: 1 or
  // 0 if it was guessed. Else the request's own rate, or that of all where fewer than
  // kFewestGuesses of its guesses were tried.
  double chance(std::size_t index, std::int64_t place) const;

  static constexpr std::int64_t kFewestGuesses = 16;

 private:
  struct Tried {
    std::int64_t right = 0;
    std::int64_t wrong = 0;  // after right ones: what comes behind a wrong guess was not tried
    std::int64_t steps = 0;
    std::int64_t steps_with_drafts = 0;

    double rate() const;
  };
  struct OfRequest {
    std::vector<DraftedStep> steps;  // by place
    Tried tried;
  };

  // The last step that begins at `place` or before; nullptr if there is none.
  static const DraftedStep* find(const OfRequest& request, std::int64_t place);

  std::vector<OfRequest> requests_;
  Tried all_;
  std::size_t most_ = 0;
};

}  // namespace quire
