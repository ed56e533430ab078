#include "engine/event_log/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using testing::HasSubstr;

TEST(FrameReader, ALogOfAnotherVersionIsRefusedByItsName) {
  for (const std::uint32_t version : {kEventLogVersion - 1, kEventLogVersion + 1}) {
    std::vector<std::uint8_t> bytes = segment_start();
    bytes[8] = static_cast<std::uint8_t>(version);  // after the magic number, the lowest byte first
    const auto reader = FrameReader::open(bytes, "run.000001");
    ASSERT_FALSE(reader.ok());
    EXPECT_EQ(reader.status().code(), StatusCode::kUnimplemented);
    EXPECT_THAT(reader.status().message(), HasSubstr("run.000001"));
    EXPECT_THAT(reader.status().message(), HasSubstr("version " + std::to_string(version)));
    EXPECT_THAT(reader.status().remedy(), HasSubstr("the version of Quire that wrote it"));
  }
  const std::vector<std::uint8_t> own = segment_start();
  EXPECT_TRUE(FrameReader::open(own, "run.000001").ok());
}

}  // namespace
}  // namespace quire
