#include "base/nearest.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(Nearest, NamesWhatFewEditsAway) {
  const std::vector<std::string> names = {"temperature", "top_p", "top_k"};
  EXPECT_EQ(nearest("temprature", names), "temperature");
  EXPECT_EQ(nearest("tempreature", names), "temperature");  // neighbours swapped
  EXPECT_EQ(nearest("colour", names), std::nullopt);
  EXPECT_EQ(nearest("temprtr", names, 2), std::nullopt);
  EXPECT_EQ(nearest("temprture", names, 2), "temperature");
  EXPECT_EQ(nearest(std::string(65, 'a'), {std::string(65, 'a')}), std::nullopt);
}

}  // namespace
}  // namespace quire
