#include "kernels/op_table.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "kernels/sizing.h"

namespace quire {
namespace {

// Sets QUIRE_FORCE_ISA for the length of a test.
class ForceIsa {
 public:
  explicit ForceIsa(const char* value) {
    if (const char* before = std::getenv(kName)) before_ = before;
    value == nullptr ? ::unsetenv(kName) : ::setenv(kName, value, 1);
  }
  ~ForceIsa() { before_.empty() ? ::unsetenv(kName) : ::setenv(kName, before_.c_str(), 1); }

 private:
  static constexpr const char* kName = "QUIRE_FORCE_ISA";
  std::string before_;
};

TEST(OpTable, ReferenceIsAlwaysAvailableAndLowest) {
  const auto levels = available_levels();
  ASSERT_FALSE(levels.empty());
  EXPECT_EQ(levels.front(), IsaLevel::kRef);
  EXPECT_TRUE(std::is_sorted(levels.begin(), levels.end()));
}

TEST(OpTable, EveryLevelProvidesItsKernels) {
  void (*below)(const AttentionTask&) = nullptr;
  for (const IsaLevel level : available_levels()) {
    const OpTable& table = op_table(level);
    EXPECT_EQ(table.level, level);
    if (level <= IsaLevel::kAvx512) {
      EXPECT_NE(table.rows.attention, below);  // each has its own; those above inherit
      below = table.rows.attention;
    }
    EXPECT_NE(table.rows.rms_norm, nullptr);
    EXPECT_NE(table.rows.silu_and_mul, nullptr);
    EXPECT_NE(table.rows.soft_cap, nullptr);
    EXPECT_NE(table.rows.xielu, nullptr);
    EXPECT_NE(table.rows.clamped_and_mul, nullptr);
    EXPECT_NE(table.rows.rope_and_cache, nullptr);
    EXPECT_NE(table.rows.best_of_row, nullptr);
    EXPECT_NE(table.rows.log_sum_exp, nullptr);
    EXPECT_NE(table.rows.token_weights, nullptr);
  }
}

TEST(OpTable, ChoosesTheHighestLevel) {
  const ForceIsa force(nullptr);
  const auto level = choose_level();
  ASSERT_TRUE(level.ok());
  EXPECT_EQ(*level, available_levels().back());
}

TEST(OpTable, EnvironmentForcesALevel) {
  for (const IsaLevel wanted : available_levels()) {
    const ForceIsa force(std::string(isa_level_name(wanted)).c_str());
    const auto level = choose_level();
    ASSERT_TRUE(level.ok());
    EXPECT_EQ(*level, wanted);
  }
}

TEST(OpTable, UnknownLevelIsAnErrorThatListsTheLevels) {
  const ForceIsa force("sse9");
  const auto level = choose_level();
  ASSERT_FALSE(level.ok());
  EXPECT_EQ(level.status().code(), StatusCode::kConfig);
  EXPECT_NE(level.status().message().find("sse9"), std::string::npos);
  EXPECT_NE(level.status().remedy().find("ref"), std::string::npos);
}

TEST(OpTable, AbsentLevelIsAnErrorThatSaysSo) {
  const auto levels = available_levels();
  if (levels.back() == IsaLevel::kAmx) GTEST_SKIP() << "this processor has every level";
  const ForceIsa force("amx");
  const auto level = choose_level();
  ASSERT_FALSE(level.ok());
  EXPECT_EQ(level.status().code(), StatusCode::kConfig);
  EXPECT_NE(level.status().message().find("lacks"), std::string::npos);
}

TEST(Sizing, WorkspaceGrowsWithThreadsAndHoldsEveryWorkersScratch) {
  for (const std::int32_t head_dim : {8, 20, 64, 256}) {
    for (const std::int32_t group : {1, 3, 16}) {
      const std::uint64_t scratch = attention_scratch_bytes(head_dim, group);
      EXPECT_EQ(scratch % 64, 0U);  // keeps the next worker's scratch aligned
      EXPECT_GE(workspace_bytes(1, 64, {head_dim, group, 256}, 3), 3 * scratch);
      // Room for what long sequences are split into.
      EXPECT_GT(workspace_bytes(1, 64, {head_dim, group, 257}, 3),
                workspace_bytes(1, 64, {head_dim, group, 256}, 3));
    }
  }
}

}  // namespace
}  // namespace quire
