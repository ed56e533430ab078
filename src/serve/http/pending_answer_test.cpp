#include "serve/http/pending_answer.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

struct Wakes {
  // An answer and the outbox it waits in hold each other.
  ~Wakes() { outbox->close(); }

  int count = 0;
  std::shared_ptr<Outbox> outbox = std::make_shared<Outbox>([this] { ++count; });
};

TEST(PendingAnswer, WritesInOneGoWakeTheConnectionOnce) {
  Wakes wakes;
  const auto answer = std::make_shared<PendingAnswer>(HttpRequest(), wakes.outbox, 1000);
  answer->start_stream({});
  answer->write("a");
  answer->write("b");
  EXPECT_EQ(wakes.count, 1);
  EXPECT_EQ(wakes.outbox->take().size(), 1U);
  const auto unsent = answer->take_unsent();
  EXPECT_TRUE(unsent.head.has_value());
  EXPECT_EQ(unsent.body, "ab");
  EXPECT_FALSE(unsent.finished);
  answer->write("c");
  EXPECT_EQ(wakes.count, 2);
}

// The connection is still busy with an earlier write, so that it has not taken what came since.
TEST(PendingAnswer, AnOverflowIsToldThoughTheConnectionIsBusy) {
  Wakes wakes;
  const auto answer = std::make_shared<PendingAnswer>(HttpRequest(), wakes.outbox, 10);
  answer->start_stream({});
  answer->write("12345");
  EXPECT_EQ(wakes.outbox->take().size(), 1U);
  EXPECT_FALSE(answer->overflowed());
  answer->write("1234567");
  EXPECT_TRUE(answer->overflowed());
  EXPECT_EQ(wakes.outbox->take().size(), 1U);
  answer->write("more");
  EXPECT_TRUE(wakes.outbox->take().empty());
}

TEST(PendingAnswer, TellsOfAClientThatGoesUnlessTheAnswerIsComplete) {
  Wakes wakes;
  int gone = 0;
  const auto answer = std::make_shared<PendingAnswer>(HttpRequest(), wakes.outbox, 10);
  answer->on_disconnect([&gone] { ++gone; });
  answer->disconnect();
  answer->disconnect();
  EXPECT_EQ(gone, 1);
  answer->on_disconnect([&gone] { ++gone; });  // it has gone already
  EXPECT_EQ(gone, 2);
  const auto complete = std::make_shared<PendingAnswer>(HttpRequest(), wakes.outbox, 10);
  complete->on_disconnect([&gone] { ++gone; });
  complete->respond({});
  complete->disconnect();
  EXPECT_EQ(gone, 2);
}

}  // namespace
}  // namespace quire
