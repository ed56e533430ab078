#include "apps/chat/sse_parser.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// The data of all events, with the type before it where there is one.
std::vector<std::string> events(std::string_view stream, std::size_t piece_size) {
  std::vector<std::string> all;
  SseParser parser([&all](const SseEvent& event) {
    all.push_back(event.type.empty() ? event.data : event.type + "|" + event.data);
    return Status();
  });
  for (std::size_t i = 0; i < stream.size(); i += piece_size) {
    EXPECT_TRUE(parser.feed(stream.substr(i, piece_size)).ok());
  }
  return all;
}

TEST(SseParser, PiecesOfAnySizeGiveTheSameEvents) {
  const std::string stream =
      "\xEF\xBB\xBF"
      "data: one\n\n"
      ": a comment\r\n"
      "data: two\r\ndata:  lines\r\n\r\n"
      "event: error\rdata:{\"a\": 1}\rid: 7\rretry: 100\r\r"
      "data\ndata\n\n"
      "nonsense\n\n"
      "event: nothing follows\n\n"
      ":keep-alive\n\n"
      "data: [DONE]\n\n"
      "data: cut off";
  for (std::size_t size = 1; size <= stream.size(); ++size) {
    EXPECT_THAT(events(stream, size),
                ElementsAre("one", "two\n lines", "error|{\"a\": 1}", "\n", "[DONE]"))
        << size;
  }
}

TEST(SseParser, CarriageReturnAndLineFeedInTwoPiecesAreOneLineEnd) {
  std::vector<std::string> all;
  SseParser parser([&all](const SseEvent& event) {
    all.push_back(event.data);
    return Status();
  });
  for (const char* piece : {"data: a\r", "\n", "data: b\r", "\n\r", "\n"}) {
    ASSERT_TRUE(parser.feed(piece).ok());
  }
  EXPECT_THAT(all, ElementsAre("a\nb"));
}

TEST(SseParser, ByteOrderMarkCountsAtTheStartAlone) {
  EXPECT_THAT(events("data: x\n\n\xEF\xBB\xBF"
                     "data: y\n\n",
                     64),
              ElementsAre("x"));
}

TEST(SseParser, TypesDoNotOutliveTheirEvent) {
  EXPECT_THAT(events("event: a\ndata: 1\n\ndata: 2\n\n", 64), ElementsAre("a|1", "2"));
  EXPECT_THAT(events("event: a\n\ndata: 2\n\n", 64), ElementsAre("2"));
}

TEST(SseParser, AnErrorOfTheCallEndsTheStream) {
  int calls = 0;
  SseParser parser([&calls](const SseEvent&) {
    ++calls;
    return Status::unavailable("no");
  });
  EXPECT_EQ(parser.feed("data: a\n\ndata: b\n\n").code(), StatusCode::kUnavailable);
  EXPECT_EQ(calls, 1);
}

TEST(SseParser, EventsAreBounded) {
  const std::string piece(64 * 1024, 'x');
  for (const bool lines : {false, true}) {
    SseParser parser([](const SseEvent&) { return Status(); });
    Status status = parser.feed("data: ");
    std::size_t fed = 0;
    while (status.ok() && fed < 2 * SseParser::kMaxEventBytes) {
      status = parser.feed(piece);
      if (status.ok() && lines) status = parser.feed("\ndata: ");
      fed += piece.size();
    }
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
    EXPECT_LE(fed, SseParser::kMaxEventBytes + piece.size());
  }
}

TEST(SseParser, CommentsAreBoundedEachAloneNotTogether) {
  SseParser parser([](const SseEvent&) { return Status(); });
  const std::string comment = ":" + std::string(1000, 'c') + "\n";
  for (int i = 0; i < 3000; ++i) ASSERT_TRUE(parser.feed(comment).ok());
}

TEST(SseParser, NothingGivesNothing) {
  EXPECT_THAT(events("", 1), IsEmpty());
  EXPECT_THAT(events("\n\n\r\n\r", 1), IsEmpty());
}

}  // namespace
}  // namespace quire
