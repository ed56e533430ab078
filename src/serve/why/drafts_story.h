// What guesses at an output's tokens have come to, in words.
#pragma once

#include "engine/api.h"

namespace quire {

// Drafts of one output that has ended.
struct DraftsStory {
  std::int64_t num_accepted = 0;
  std::int64_t num_rejected = 0;
  std::shared_ptr<const SpeculationReport> report;  // null: the engine guessed none of them

  explicit DraftsStory(const RequestOutput& output)
      : num_accepted(output.num_accepted_drafts),
        num_rejected(output.num_rejected_drafts),
        report(output.speculation) {}
  DraftsStory() = default;
  bool any() const { return num_accepted + num_rejected > 0; }
};

// {"accepted", "rejected"}, and with a report "steps", "accepted_at" (right ones by place, up to
// the last that ever was), "mean_accepted_length", "draft_ms", "verify_ms", "draft_rows_ms" (of
// that), where it is known "speedup", and "because".
json::object drafts_json(const DraftsStory& drafts);

}  // namespace quire
