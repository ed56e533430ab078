#include "serve/http/body_budget.h"

#include <list>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kMiB = 1ULL << 20;

class BodyBudgetTest : public testing::Test {
 protected:
  BodyBudget::Body& begin(std::function<void()> give_way = [] {}) {
    return bodies_.emplace_back(budget_, std::move(give_way), now_);
  }

  BodyBudget budget_{512 * kMiB};
  BodyBudget::TimePoint now_{seconds(1000)};
  std::list<BodyBudget::Body> bodies_;
};

TEST_F(BodyBudgetTest, SeventeenUnfinishedBodiesMakeRoomForTheEighteenth) {
  std::vector<int> gone;
  for (int i = 0; i < 17; ++i) {
    EXPECT_TRUE(begin([&gone, i] { gone.push_back(i); }).update(30 * kMiB, 30 * kMiB, now_));
    now_ += milliseconds(10);
  }
  // They go on by a byte every half second.
  for (int round = 1; round <= 4; ++round) {
    now_ += milliseconds(500);
    for (auto& body : bodies_) {
      EXPECT_TRUE(body.update(30 * kMiB + static_cast<std::uint64_t>(round), 30 * kMiB, now_));
    }
  }
  auto& honest = begin();
  for (std::uint64_t mib = 1; mib <= 30; ++mib) {
    now_ += milliseconds(100);
    EXPECT_TRUE(honest.update(mib * kMiB, mib * kMiB, now_)) << mib;
    EXPECT_LE(budget_.held_bytes(), 512 * kMiB);
  }
  EXPECT_THAT(gone, testing::ElementsAre(0));  // who was slow for longest, and no more than needed
}

TEST_F(BodyBudgetTest, NobodyWhoProgressesGivesWay) {
  int gone = 0;
  for (int i = 0; i < 17; ++i) begin([&gone] { ++gone; });
  for (std::uint64_t mib = 1; mib <= 30; ++mib) {
    now_ += milliseconds(100);
    for (auto& body : bodies_) EXPECT_TRUE(body.update(mib * kMiB, mib * kMiB, now_));
  }
  EXPECT_FALSE(begin().update(3 * kMiB, 3 * kMiB, now_));
  EXPECT_EQ(gone, 0);
}

TEST_F(BodyBudgetTest, TheSlowestIsRefusedItselfWhereItAsksForMore) {
  auto& slow = begin();
  EXPECT_TRUE(slow.update(kMiB, kMiB, now_));
  now_ += seconds(5);
  EXPECT_TRUE(begin([] { FAIL(); }).update(511 * kMiB, 511 * kMiB, now_));
  EXPECT_FALSE(slow.update(kMiB + 1, kMiB + 1, now_));
}

TEST_F(BodyBudgetTest, ACompleteBodyCountsAndStays) {
  auto& complete = begin([] { FAIL(); });
  EXPECT_TRUE(complete.update(400 * kMiB, 400 * kMiB, now_));
  complete.complete();
  now_ += seconds(5);
  EXPECT_FALSE(begin().update(200 * kMiB, 200 * kMiB, now_));
  bodies_.clear();
  EXPECT_EQ(budget_.held_bytes(), 0U);
}

}  // namespace
}  // namespace quire
