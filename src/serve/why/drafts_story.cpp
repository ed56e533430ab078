#include "serve/why/drafts_story.h"

#include <chrono>
#include <cmath>

#include <fmt/format.h>

namespace quire {
namespace {

double thousandths(double value) { return std::round(value * 1000) / 1000; }
double in_ms(Duration time) {
  return thousandths(std::chrono::duration<double, std::milli>(time).count());
}

json::array accepted_at(const SpeculationReport& report) {
  json::array places;
  for (const std::int32_t count : report.accepted_at) {
    if (count == 0) break;  // none is right behind a wrong one
    places.push_back(count);
  }
  return places;
}

std::string because(const DraftsStory& drafts) {
  const SpeculationReport& report = *drafts.report;
  std::string text = fmt::format("{} of {} guesses were right: {:.2f} tokens in each of {} steps",
                                 drafts.num_accepted, drafts.num_accepted + drafts.num_rejected,
                                 report.mean_accepted_length(), report.num_steps);
  if (const auto speedup = report.times.speedup()) {
    text += fmt::format("; its tokens came {:.2f} times as fast as without guesses", *speedup);
  }
  return text;
}

}  // namespace

json::object drafts_json(const DraftsStory& drafts) {
  json::object out = {{"accepted", drafts.num_accepted}, {"rejected", drafts.num_rejected}};
  if (drafts.report == nullptr) return out;
  const SpeculationReport& report = *drafts.report;
  out["steps"] = report.num_steps;
  out["accepted_at"] = accepted_at(report);
  out["mean_accepted_length"] = thousandths(report.mean_accepted_length());
  out["draft_ms"] = in_ms(report.times.draft);
  out["verify_ms"] = in_ms(report.times.verify);
  out["draft_rows_ms"] = in_ms(report.times.draft_rows);
  if (const auto speedup = report.times.speedup()) out["speedup"] = thousandths(*speedup);
  out["because"] = because(drafts);
  return out;
}

}  // namespace quire
