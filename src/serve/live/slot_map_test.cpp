#include "serve/live/slot_map.h"

#include <set>

#include <gtest/gtest.h>

#include "base/random.h"

namespace quire {
namespace {

std::vector<StepShare> shares_of(const std::vector<RequestId>& ids) {
  std::vector<StepShare> shares;
  for (const RequestId id : ids) {
    shares.push_back({.output_id = id, .num_tokens = 1, .use = RowUse::kTokens, .wanted = true});
  }
  return shares;
}

std::vector<std::int32_t> slots(SlotMap& map, const std::vector<RequestId>& ids) {
  std::vector<std::int32_t> result;
  for (const SlotMap::Holder& each : map.assign(shares_of(ids))) result.push_back(each.slot);
  return result;
}

TEST(SlotMap, KeepsSlotsAndGivesFreedOnesToNewcomers) {
  SlotMap map;
  EXPECT_EQ(slots(map, {7, 8, 9}), (std::vector{0, 1, 2}));
  EXPECT_EQ(slots(map, {9, 7}), (std::vector{2, 0}));
  EXPECT_EQ(slots(map, {7, 9, 10, 11}), (std::vector{0, 2, 1, 3}));
  EXPECT_EQ(slots(map, {}), std::vector<std::int32_t>());
  EXPECT_EQ(slots(map, {12}), std::vector{0});
}

TEST(SlotMap, SaysWhoIsNewAndCountsThem) {
  SlotMap map;
  EXPECT_TRUE(map.assign(shares_of({5}))[0].first);
  const auto second = map.assign(shares_of({5, 6}));
  EXPECT_FALSE(second[0].first);
  EXPECT_TRUE(second[1].first);
  EXPECT_EQ(second[0].arrival, 0);
  EXPECT_EQ(second[1].arrival, 1);
  map.assign(shares_of({6}));
  EXPECT_TRUE(map.assign(shares_of({6, 5}))[1].first);  // preempted and back
}

TEST(SlotMap, NeverGivesASlotTwiceAndNeedsNoMoreThanTheBatch) {
  SlotMap map;
  std::set<RequestId> running;
  RequestId next = 1;
  constexpr std::size_t kMost = 12;
  for (std::uint64_t step = 0; step < 2000; ++step) {
    while (running.size() < kMost && random_bits(step, next) % 3 != 0) running.insert(next++);
    const auto held = slots(map, {running.begin(), running.end()});
    const std::set<std::int32_t> distinct(held.begin(), held.end());
    ASSERT_EQ(distinct.size(), running.size());
    if (!distinct.empty()) {
      ASSERT_LT(*distinct.rbegin(), static_cast<std::int32_t>(kMost));
    }
    std::erase_if(running, [&](RequestId id) { return random_bits(step + 7, id) % 4 == 0; });
  }
}

}  // namespace
}  // namespace quire
