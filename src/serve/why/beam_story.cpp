#include "serve/why/beam_story.h"

#include <string>

#include <fmt/format.h>

namespace quire {
namespace {

std::string because(const BeamReport& report) {
  const std::string found =
      fmt::format("{} of {} outputs are finished", report.num_finished, report.width);
  if (!report.end) {
    return fmt::format("{} beams go on after {} tokens; {}", report.num_live, report.num_tokens,
                       found);
  }
  switch (*report.end) {
    case BeamEnd::kMaxTokens:
      return fmt::format("its beams reached max_tokens after {} tokens; {}", report.num_tokens,
                         found);
    case BeamEnd::kEarlyStopping:
      return fmt::format(
          "it stopped with the {}th finished output (early_stopping), after {} tokens",
          report.width, report.num_tokens);
    case BeamEnd::kUnlikely:
      return fmt::format(
          "{}, and the best beam could score {:.4f} at most, the worst of them has {:.4f}", found,
          report.best_reachable.value_or(0), report.worst_score.value_or(0));
    case BeamEnd::kNoCandidates:
      return fmt::format("every next token would have ended an output, after {} tokens; {}",
                         report.num_tokens, found);
  }
  return found;
}

}  // namespace

json::object beams_json(const BeamReport& report) {
  json::object out = {{"width", report.width},
                      {"live", report.num_live},
                      {"tokens", report.num_tokens},
                      {"finished", report.num_finished},
                      {"forks", report.num_forks}};
  if (report.best_score) out["best_score"] = *report.best_score;
  if (report.worst_score) out["worst_score"] = *report.worst_score;
  if (report.best_reachable) out["best_reachable"] = *report.best_reachable;
  if (report.end) out["end"] = beam_end_name(*report.end);
  out["because"] = because(report);
  return out;
}

}  // namespace quire
