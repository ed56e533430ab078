// Counted weights against numbers that scripts/goldens/counted_weights.py gave.
#include "support/counted_weights.h"

#include <filesystem>
#include <string>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "support/test_models.h"

namespace quire::test {
namespace {

TEST(CountedWeights, AreTheNumbersOfTheScript) {
  const CountedTensor norm{.name = "model.norm.weight", .shape = {7}, .scale = 0.25, .mean = 1};
  const std::vector<std::uint16_t> expected = {0x3fca, 0x3fb0, 0x3f6c, 0x3f29,
                                               0x3f8a, 0x3f18, 0x3f81};
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(counted_weight(norm, 3, i), expected[i]);
  const CountedTensor plain{.name = "w", .shape = {200, 300}, .scale = 0.25, .mean = 0};
  EXPECT_EQ(counted_weight(plain, 0, 0), 0xbc8a);
  EXPECT_EQ(counted_weight(plain, 0, 3), 0x3e5e);
  EXPECT_EQ(fnv1a64("model.norm.weight"), 0xd6d6e5afd11604e4ULL);
}

TEST(CountedWeights, AreZeroWhereFloat16WouldLoseBits) {
  const CountedTensor tiny{.name = "w", .shape = {4}, .scale = 1e-6, .mean = 0};
  EXPECT_EQ(counted_bytes(tiny, 0).value(), std::string(8, '\0'));
}

TEST(CountedWeights, RefuseShapesThatAreNoTestsCheckpoint) {
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{0}, {1 << 20, 1 << 20}, {1LL << 62, 8}}) {
    EXPECT_FALSE(counted_bytes({.name = "w", .shape = shape, .scale = 1, .mean = 0}, 0).ok());
  }
}

TEST(CountedWeights, AreNotWrittenWhereTheyAreNotTheGoldens) {
  const std::string path = family_golden("cohere", "weights.json");
  auto list = read_json_file(path, 1U << 24);
  ASSERT_TRUE(list.ok()) << list.status().to_string();
  const auto weights = read_counted_weights(JsonReader(list->as_object(), path));
  ASSERT_TRUE(weights.ok()) << weights.status().to_string();
  const auto file = std::filesystem::path(::testing::TempDir()) /
                    ("counted_" + std::to_string(::getpid()) + ".safetensors");
  CountedWeights changed = *weights;
  changed.seed += 1;
  const Status refused = write_counted_safetensors(changed, file);
  EXPECT_NE(refused.to_string().find("not those that the goldens were made with"),
            std::string::npos)
      << refused.to_string();
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_TRUE(write_counted_safetensors(*weights, file).ok());
  EXPECT_EQ(read_file(file, 1U << 24).value(),
            read_file(family_model("cohere", "hf") + "/model.safetensors", 1U << 24).value());
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace quire::test
