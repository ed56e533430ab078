#include "serve/why/request_story.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

std::string number(RequestId id) { return "req-" + std::to_string(id); }

double sum_of_spans(const json::object& story) {
  double sum = 0;
  for (const json::value& span : story.at("spans").as_array()) {
    sum += span.at("duration_ms").as_double();
  }
  return sum;
}

OutputStory story_of(RequestTimeline timeline) {
  OutputStory story;
  story.finish_reason = "length";
  story.received = 1ms;
  story.submitted = 2ms;
  story.arrival = 5ms;
  story.end = 40ms;
  story.told = 41ms;
  story.timeline = std::make_shared<const RequestTimeline>(std::move(timeline));
  return story;
}

TEST(RequestStory, ABeamSearchSaysWhatItHasComeTo) {
  RequestTimeline timeline;
  BeamReport report = {
      .width = 4, .num_live = 4, .num_tokens = 7, .num_finished = 2, .num_forks = 9};
  const auto beams = [&] {
    timeline.explain(report);
    const json::object story = story_json(story_of(timeline), number, {.others = number}, 99ms);
    EXPECT_THAT(story_text(story), HasSubstr("beams: 4 and 9 forks; "));
    return story.at("beams").as_object();
  };
  EXPECT_FALSE(beams().contains("end"));
  EXPECT_EQ(beams().at("because"), "4 beams go on after 7 tokens; 2 of 4 outputs are finished");
  report.num_finished = 4;
  report.best_score = -0.5;
  report.worst_score = -0.75;
  report.best_reachable = -1.25;
  report.end = BeamEnd::kUnlikely;
  EXPECT_EQ(beams().at("end"), "unlikely");
  EXPECT_EQ(beams().at("worst_score").as_double(), -0.75);
  EXPECT_EQ(beams().at("because"),
            "4 of 4 outputs are finished, and the best beam could score -1.2500 at most, the worst "
            "of them has -0.7500");
  report.end = BeamEnd::kEarlyStopping;
  EXPECT_THAT(std::string(beams().at("because").as_string()), HasSubstr("early_stopping"));
  report.end = BeamEnd::kMaxTokens;
  EXPECT_THAT(std::string(beams().at("because").as_string()), HasSubstr("reached max_tokens"));
}

TEST(RequestStory, TheSpansAreTheWholeLife) {
  RequestTimeline timeline;
  timeline.wait(WaitCause::kMaxNumSeqs, 5ms);
  Blockers blockers;
  for (RequestId id = 7; id < 12; ++id) blockers.add(id);
  timeline.block(blockers);
  timeline.compute({.kind = SpanKind::kPrefill, .num_tokens = 9, .num_cached_tokens = 16}, 20ms);
  timeline.compute({.kind = SpanKind::kDecode, .num_tokens = 1}, 30ms);
  timeline.compute({.kind = SpanKind::kDecode, .num_tokens = 1}, 35ms);
  timeline.finish(40ms);
  const json::object story = story_json(story_of(timeline), number, {.others = number}, 99ms);
  EXPECT_EQ(story.at("total_ms").as_double(), 40.0);
  EXPECT_EQ(sum_of_spans(story), 40.0);
  std::vector<std::string> whats;
  for (const json::value& span : story.at("spans").as_array()) {
    whats.emplace_back(span.at("what").as_string());
  }
  EXPECT_THAT(whats,
              testing::ElementsAre("receive", "admit", "wait", "prefill", "decode", "deliver"));
  const json::object& wait = story.at("spans").as_array()[2].as_object();
  EXPECT_EQ(wait.at("cause"), "max_num_seqs");
  EXPECT_EQ(wait.at("waited_for"),
            (json::value{{"count", 5}, {"ids", {"req-7", "req-8", "req-9"}}}));
  EXPECT_EQ(story.at("totals_ms").at("wait.max_num_seqs").as_double(), 15.0);
  const std::string text = story_text(story);
  EXPECT_THAT(text, HasSubstr("wait (max_num_seqs)"));
  EXPECT_THAT(text, HasSubstr(": req-7, req-8, req-9 and 2 more"));
  EXPECT_THAT(text, HasSubstr("16 before it were in the cache"));
}

// Even where most spans are only totals, and at fractions of microseconds.
TEST(RequestStory, ALongLifeAddsUpToo) {
  RequestTimeline timeline;
  Instant now = 5ms;
  for (int i = 0; i < 200; ++i) {
    timeline.wait(WaitCause::kTokenBudget, now);
    timeline.compute({.kind = SpanKind::kPrefill, .num_tokens = 3}, now + 37'777ns);
    now += 81'313ns;
  }
  timeline.finish(now);
  OutputStory story = story_of(timeline);
  story.end = now;
  story.told = now + 1'234ns;
  const json::object told = story_json(story, number, {.others = number}, now);
  EXPECT_NEAR(sum_of_spans(told), told.at("total_ms").as_double(), 1e-9);
  EXPECT_NEAR(told.at("total_ms").as_double(), to_seconds(*story.told - story.received) * 1e3,
              2e-3);
}

TEST(RequestStory, OneThatGoesOnEndsNow) {
  RequestTimeline timeline;
  timeline.wait(WaitCause::kQueueOrder, 5ms);
  OutputStory story = story_of(timeline);
  story.finish_reason.clear();
  story.end.reset();
  story.told.reset();
  json::object told = story_json(story, number, {.others = number}, 12ms);
  EXPECT_EQ(told.at("status"), "running");
  EXPECT_EQ(told.at("total_ms").as_double(), 11.0);
  EXPECT_EQ(sum_of_spans(told), 11.0);
  // The scheduler has not taken it yet.
  story.arrival.reset();
  story.timeline = nullptr;
  told = story_json(story, number, {.others = number}, 12ms);
  EXPECT_EQ(told.at("spans").as_array().size(), 2U);
  EXPECT_EQ(sum_of_spans(told), 11.0);
}

TEST(RequestStory, OneThatWasRefusedEndsWhenThatWasTold) {
  OutputStory story = story_of({});
  story.finish_reason = "error";
  story.arrival.reset();
  story.end.reset();
  story.timeline = nullptr;
  const json::object told = story_json(story, number, {.others = number}, 99ms);
  EXPECT_EQ(told.at("total_ms").as_double(), 40.0);
  EXPECT_EQ(sum_of_spans(told), 40.0);
}

TEST(RequestStory, TellsWhatGuessesGave) {
  RequestOutput output;
  EXPECT_FALSE(DraftsStory(output).any());
  output.num_accepted_drafts = 3;
  output.num_rejected_drafts = 5;
  // Forced tokens, where nobody guesses.
  EXPECT_EQ(drafts_json(DraftsStory(output)), json::object({{"accepted", 3}, {"rejected", 5}}));
  auto report = std::make_shared<SpeculationReport>();
  report->num_steps = 2;
  report->num_accepted = 3;
  report->accepted_at = {2, 1};
  report->times = {.draft = 1'500us, .verify = 80ms, .draft_rows = 20ms};
  output.speculation = report;
  json::object drafts = drafts_json(DraftsStory(output));
  EXPECT_FALSE(drafts.contains("speedup"));
  EXPECT_EQ(drafts.at("because").as_string(),
            "3 of 8 guesses were right: 2.50 tokens in each of 2 steps");
  drafts.erase("because");
  EXPECT_EQ(drafts, json::object({{"accepted", 3},
                                  {"rejected", 5},
                                  {"steps", 2},
                                  {"accepted_at", {2, 1}},
                                  {"mean_accepted_length", 2.5},
                                  {"draft_ms", 1.5},
                                  {"verify_ms", 80.0},
                                  {"draft_rows_ms", 20.0}}));
  report->times.plain = 120ms;
  report->times.taken = 160ms;
  report->times.num_compared = 2;
  EXPECT_EQ(drafts_json(DraftsStory(output)).at("speedup"), 0.75);
  OutputStory story = story_of({});
  story.end = story.told;
  story.drafts = DraftsStory(output);
  const json::object told = story_json(story, number, {.others = number}, 99ms);
  EXPECT_EQ(told.at("drafts").as_object().at("steps"), 2);
  EXPECT_THAT(story_text(told),
              HasSubstr("guesses: 3 of 8 guesses were right: 2.50 tokens in each of 2 steps; its "
                        "tokens came 0.75 times as fast as without guesses\n"));
}

}  // namespace
}  // namespace quire
