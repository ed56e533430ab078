#include "serve/requests/rare_warning.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(RareWarning, IsDueOnceAMinute) {
  RareWarning warning;
  const RareWarning::Clock::time_point start{};
  EXPECT_TRUE(warning.due(start));
  EXPECT_FALSE(warning.due(start));
  EXPECT_FALSE(warning.due(start + std::chrono::seconds(59)));
  EXPECT_TRUE(warning.due(start + std::chrono::seconds(60)));
  EXPECT_FALSE(warning.due(start + std::chrono::seconds(61)));
}

}  // namespace
}  // namespace quire
