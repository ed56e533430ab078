#include "core/fair_shares.h"

#include <gtest/gtest.h>

namespace quire {
namespace fair_shares_test {

TEST(FairShares, WhoComesStartsNoLowerThanTheOthersAre) {
  FairShares shares;
  FairShare& first = shares.join("first");
  first.served += 100;
  EXPECT_EQ(shares.join("second").served, 100);
  EXPECT_EQ(&shares.join("first"), &first);
  EXPECT_EQ(first.num_present, 2);
  EXPECT_EQ(shares.num_present(), 3);
}

// Nobody saves up what he did not use, and nobody is forgiven what he has had.
TEST(FairShares, AnIdleUserIsRememberedWhileHeHasHadMore) {
  FairShares shares;
  FairShare& busy = shares.join("busy");
  FairShare& light = shares.join("light");
  busy.served += 500;
  light.served += 10;
  shares.leave(busy);
  EXPECT_EQ(shares.join("busy").served, 500);
  shares.leave(light);  // the floor is the busy one's
  EXPECT_EQ(shares.join("light").served, 500);
}

TEST(FairShares, WhenNobodyIsThereTheLastOneSaysWhereTheNextStarts) {
  FairShares shares;
  FairShare& alone = shares.join("alone");
  alone.served += 70;
  shares.leave(alone);
  EXPECT_TRUE(shares.snapshot().users.empty());  // he comes back as somebody new does
  EXPECT_EQ(shares.join("new").served, 70);
}

TEST(FairShares, RemembersSoManyIdleUsers) {
  FairShares shares;
  FairShare& steady = shares.join("steady");
  for (std::size_t i = 0; i < FairShares::kMaxIdle + 5; ++i) {
    FairShare& share = shares.join(std::to_string(i));
    share.served += 1 + static_cast<std::int64_t>(i);
    shares.leave(share);
  }
  EXPECT_EQ(shares.snapshot().users.size(), FairShares::kMaxIdle + 1);
  EXPECT_EQ(shares.join("0").served, 0);  // who had least is as new
  EXPECT_EQ(steady.served, 0);
}

TEST(FairShares, ASnapshotIsAllOfIt) {
  FairShares shares;
  shares.join("a").served += 5;
  shares.join("b").served += 7;
  FairShares restored;
  ASSERT_TRUE(restored.restore(shares.snapshot()).ok());
  EXPECT_EQ(restored.rejoin("nobody"), nullptr);
  EXPECT_EQ(restored.rejoin("b")->served, 12);
  EXPECT_EQ(restored.num_present(), 1);
  FairShares::Snapshot bad = shares.snapshot();
  bad.users[0].served = -1;
  EXPECT_FALSE(FairShares().restore(bad).ok());
  bad = shares.snapshot();
  bad.users.push_back(bad.users[0]);
  EXPECT_FALSE(FairShares().restore(bad).ok());
}

}  // namespace fair_shares_test
}  // namespace quire
