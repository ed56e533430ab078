#include "apps/top/frame.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kEvent = R"({
  "state": {
    "time_s": 3725.5,
    "engine": {"model": "tiny", "max_num_seqs": 4},
    "num_running": 2, "num_waiting": 5,
    "running": [
      {"request": 7, "id": "cmpl-req-0123456789abcdef-7", "index": 0, "computed_tokens": 30,
       "known_tokens": 31, "max_tokens": 50, "cached_tokens": 16, "blocks": 2, "age_s": 1.25},
      {"request": 8, "id": "cmpl-8", "index": 1, "computed_tokens": 4, "known_tokens": 90,
       "max_tokens": 99, "cached_tokens": 0, "blocks": 1, "age_s": 75}
    ],
    "waiting": [
      {"request": 9, "id": "cmpl-9", "index": 0, "computed_tokens": 0, "known_tokens": 12,
       "max_tokens": 20, "cached_tokens": 0, "blocks": 0, "age_s": 0.5,
       "wait": "max_num_seqs", "waited_s": 0.5}
    ],
    "blocks": {"total": 40, "free": 20, "cached": 10, "used": 10, "shared": 3},
    "totals": {"preemptions": 6},
    "per_second": {"output_tokens": 12.5, "prompt_tokens": 100, "requests": 1, "steps": 25},
    "latency": {"first_token": {"count": 0}, "inter_token": {"count": 9, "p50_ms": 40.25, "p99_ms": 50}}
  },
  "steps": [[1, 0, 5, 0, 6, 0], [2, 9, 5, 0, 7, 0, 2, 8, 12, 3, 5, -1]],
  "steps_missed": 0
})";

LiveEvent event_of(std::string_view text) {
  auto event = parse_live_event(text);
  EXPECT_TRUE(event.ok()) << event.status().to_string();
  return event.ok() ? *std::move(event) : LiveEvent();
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::string without(std::string text, std::string_view part) {
  const std::size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos);
  return text.erase(at, part.size());
}

TEST(TopFrame, ShowsWhatRunsWhatWaitsAndHowFast) {
  const std::string text = joined(frame_of(event_of(kEvent), {.width = 100, .height = 0}));
  EXPECT_THAT(text, HasSubstr("tiny   up 1:02:05"));
  EXPECT_THAT(text, HasSubstr("running 2 of 4   waiting 5   preemptions 6"));
  EXPECT_THAT(text, HasSubstr("output 12.5 tok/s   prompt 100.0 tok/s   steps 25.0/s"));
  EXPECT_THAT(text, HasSubstr("first token p50 - p99 -   between tokens p50 40.2 ms p99 50.0 ms"));
  EXPECT_THAT(text, HasSubstr("10 of 40 blocks held, 3 shared, 10 cached"));
  EXPECT_THAT(text, HasSubstr("[##########::::::::::....................]"));
  EXPECT_THAT(text, HasSubstr("slots #.Px\n"));
  EXPECT_THAT(text, HasSubstr("cmpl-req-0123456789abcdef-7"));
  EXPECT_THAT(text, HasSubstr("cmpl-8#1"));
  EXPECT_THAT(text, HasSubstr("max_num_seqs 0.5 s"));
  EXPECT_THAT(text, HasSubstr("and 4 more"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

std::string with_speculation(std::string_view speculation) {
  std::string text(kEvent);
  return text.insert(text.find(R"("totals")"), fmt::format(R"("speculation": {}, )", speculation));
}

TEST(TopFrame, TellsWhatGuessesGive) {
  const auto shown = [](std::string_view speculation) {
    return joined(frame_of(event_of(with_speculation(speculation)), {.width = 100}));
  };
  EXPECT_THAT(shown(R"({"method": "ngram", "draft_tokens": 40, "accepted_tokens": 29,
                        "speedup": 1.416})"),
              HasSubstr("guesses by ngram   accepted 29 of 40 (72%)   speed-up 1.42\n"));
  EXPECT_THAT(shown(R"({"method": "suffix", "draft_tokens": 0, "accepted_tokens": 0})"),
              HasSubstr("guesses by suffix   accepted 0 of 0\n"));
  EXPECT_THAT(joined(frame_of(event_of(kEvent), {})), Not(HasSubstr("guesses")));
}

TEST(TopFrame, FitsItsTerminal) {
  const LiveEvent event = event_of(with_speculation(
      R"({"method": "draft_model", "draft_tokens": 123456789, "accepted_tokens": 123456789,
          "speedup": 1.4})"));
  for (const int width : {40, 60, 80, 200}) {
    for (const std::string& line : frame_of(event, {.width = width, .height = 0})) {
      EXPECT_LE(line.size(), static_cast<std::size_t>(width)) << line;
    }
  }
  for (const int height : {1, 5, 9, 10, 30}) {
    EXPECT_LE(frame_of(event, {.width = 80, .height = height}).size(),
              static_cast<std::size_t>(height));
  }
  EXPECT_THAT(joined(frame_of(event, {.width = 60, .height = 0})), HasSubstr("cmpl-..def-7"));
}

TEST(TopFrame, HasColourOnlyWhereAsked) {
  EXPECT_THAT(joined(frame_of(event_of(kEvent), {.color = true})), HasSubstr("\x1b[38;5;"));
}

TEST(LiveEvent, MayHaveNoRatesYet) {
  const std::string text = without(
      std::string(kEvent),
      R"("per_second": {"output_tokens": 12.5, "prompt_tokens": 100, "requests": 1, "steps": 25},)");
  const LiveEvent event = event_of(text);
  EXPECT_FALSE(event.has_rates);
  EXPECT_THAT(joined(frame_of(event, {})), HasSubstr("output -"));
}

TEST(LiveEvent, SaysWhatIsNotAsExpected) {
  const auto error = [](std::string_view text) {
    const auto event = parse_live_event(text);
    return event.ok() ? std::string("ok") : event.status().to_string();
  };
  EXPECT_THAT(error("nonsense"), HasSubstr("the server's event"));
  EXPECT_THAT(error("[]"), HasSubstr("no object"));
  EXPECT_THAT(error("{}"), HasSubstr("state"));
  EXPECT_THAT(error(without(std::string(kEvent), R"("preemptions": 6)")), HasSubstr("preemptions"));
  EXPECT_THAT(error(with_speculation(R"({"method": "ngram"})")), HasSubstr("draft_tokens"));
  EXPECT_THAT(error(R"({"error": {"message": "the engine has ended"}})"),
              HasSubstr("the engine has ended"));
}

// Whatever a server sends, no control character reaches the terminal.
TEST(LiveEvent, MakesNamesPrintable) {
  std::string text(kEvent);
  text.replace(text.find("cmpl-8"), 6, "a\\u001b[2Jb");
  EXPECT_THAT(joined(frame_of(event_of(text), {.width = 120})), Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace quire
