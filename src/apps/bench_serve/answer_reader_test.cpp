#include "apps/bench_serve/answer_reader.h"

#include <memory>

#include <gtest/gtest.h>

namespace quire::bench {
namespace {

constexpr std::string_view kStreamHead =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    "Transfer-Encoding: chunked\r\n\r\n";

std::string chunk(std::string_view data) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string size;
  for (std::size_t rest = data.size(); rest > 0; rest /= 16) size.insert(0, 1, kDigits[rest % 16]);
  return size + "\r\n" + std::string(data) + "\r\n";
}

std::string stream_text() {
  return std::string(kStreamHead) + chunk("data: {\"text\":\"a\"}\n\n: comment\n\nda") +
         chunk("ta: {\"text\":\"\",\"finish_reason\":\"stop\"}\r\n\r\n") +
         chunk("data: {\"usage\":{\"prompt_tokens\":2,\"completion_tokens\":1}}\n\n") +
         chunk("data: [DONE]\n\n") + "0\r\n\r\n";
}

// A reader and what its events say: "text", "finish", "usage", one word for each event.
struct Reading {
  std::string events;
  std::unique_ptr<AnswerReader> reader =
      std::make_unique<AnswerReader>([this](const EventFacts& facts, std::string_view) {
        events += facts.usage      ? "usage "
                  : facts.finished ? "finish "
                  : facts.has_text ? "text "
                                   : "? ";
      });
};

TEST(AnswerReader, AStreamIsTheSameInPiecesOfAnySizes) {
  const std::string text = stream_text();
  for (std::size_t split = 0; split <= text.size(); ++split) {
    Reading reading;
    ASSERT_TRUE(reading.reader->feed(std::string_view(text).substr(0, split)).ok()) << split;
    ASSERT_TRUE(split == text.size() || !reading.reader->done()) << split;
    ASSERT_TRUE(reading.reader->feed(std::string_view(text).substr(split)).ok()) << split;
    ASSERT_TRUE(reading.reader->done()) << split;
    EXPECT_EQ(reading.events, "text finish usage ") << split;
    EXPECT_TRUE(reading.reader->stream_done());
    EXPECT_TRUE(reading.reader->reusable());
    EXPECT_TRUE(reading.reader->is_event_stream());
    EXPECT_EQ(reading.reader->status(), 200);
  }
  Reading bytewise;
  for (const char byte : text) ASSERT_TRUE(bytewise.reader->feed({&byte, 1}).ok());
  EXPECT_TRUE(bytewise.reader->done());
  EXPECT_EQ(bytewise.events, "text finish usage ");
}

TEST(AnswerReader, AnErrorsBodyIsKept) {
  Reading reading;
  ASSERT_TRUE(reading.reader
                  ->feed("HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
                         "Content-Length: 4\r\n\r\nfull")
                  .ok());
  EXPECT_TRUE(reading.reader->done());
  EXPECT_EQ(reading.reader->status(), 503);
  EXPECT_EQ(reading.reader->body(), "full");
  EXPECT_FALSE(reading.reader->is_event_stream());
}

TEST(AnswerReader, AnAnswerMayGoOnUntilTheConnectionCloses) {
  Reading reading;
  ASSERT_TRUE(reading.reader
                  ->feed("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
                         "data: {\"text\":\"a\"}\n\ndata: [DONE]\n\n")
                  .ok());
  EXPECT_FALSE(reading.reader->done());
  EXPECT_TRUE(reading.reader->close().ok());
  EXPECT_TRUE(reading.reader->done());
  EXPECT_FALSE(reading.reader->reusable());
}

TEST(AnswerReader, AConnectionThatClosesTooEarlyIsAnError) {
  const std::string text = stream_text();
  for (std::size_t end = 0; end < text.size(); ++end) {
    Reading reading;
    ASSERT_TRUE(reading.reader->feed(std::string_view(text).substr(0, end)).ok());
    EXPECT_FALSE(reading.reader->close().ok()) << end;
    EXPECT_EQ(reading.reader->touched(), end > 0);
  }
}

TEST(AnswerReader, WhatIsNoHttpIsAnError) {
  for (const char* text : {"SSH-2.0-OpenSSH_9.2\r\n", "HTTP/1.1 abc\r\n\r\n",
                           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"}) {
    Reading reading;
    EXPECT_FALSE(reading.reader->feed(text).ok()) << text;
  }
  Reading reading;
  EXPECT_FALSE(reading.reader->feed(stream_text() + "HTTP/1.1").ok());
}

TEST(AnswerReader, WhatAnEventMayHoldIsBounded) {
  Reading reading;
  Status status = reading.reader->feed(kStreamHead);
  const std::string piece = chunk("data: " + std::string(60000, 'x'));
  for (int i = 0; i < 40 && status.ok(); ++i) status = reading.reader->feed(piece);
  EXPECT_FALSE(status.ok());
}

}  // namespace
}  // namespace quire::bench
