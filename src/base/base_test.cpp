#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "base/checked.h"
#include "base/cpu_time.h"
#include "base/json.h"
#include "base/random.h"
#include "base/status.h"

namespace quire {
namespace {

TEST(Status, ExitCodesFollowSysexits) {
  EXPECT_EQ(exit_code(StatusCode::kInvalidArgument), 64);
  EXPECT_EQ(exit_code(StatusCode::kBadModel), 65);
  EXPECT_EQ(exit_code(StatusCode::kNotFound), 66);
  EXPECT_EQ(exit_code(StatusCode::kCancelled), 130);
}

TEST(Checked, OverflowGivesNothing) {
  EXPECT_FALSE(checked_add(~0ULL, 1).has_value());
  EXPECT_FALSE(checked_mul(1ULL << 32, 1ULL << 32).has_value());
  EXPECT_EQ(checked_mul(6, 7), 42U);
}

TEST(Json, ErrorNamesLineAndColumn) {
  const auto result = parse_json("{\"a\": 1,\n \"b\": }", "config.json");
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().message().find("config.json: invalid JSON at line 2"),
            std::string::npos);
}

TEST(Json, NumbersOutOfRangeAreNamed) {
  const auto result = parse_json(R"({"a":[1,{"temperature":-1e999}]})", "request");
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().message().find("\"a[1].temperature\" is out of range"),
            std::string::npos)
      << result.status().message();
  EXPECT_TRUE(parse_json("[1e308, 1e-999]", "x").ok());
}

TEST(Json, DepthIsLimited) { EXPECT_FALSE(parse_json(std::string(100000, '['), "deep").ok()); }

TEST(Json, ExtraDataIsAnError) {
  EXPECT_FALSE(parse_json("{} x", "x").ok());
  EXPECT_TRUE(parse_json("{} \n", "x").ok());
  EXPECT_TRUE(parse_json("42", "x").ok());
  EXPECT_FALSE(parse_json("{\"a\": 1", "x").ok());
}

TEST(Json, TypedAccessNamesKeyAndKinds) {
  const auto value = parse_json(R"({"n": "x", "z": null})", "f");
  ASSERT_TRUE(value.ok());
  const JsonReader reader(value->get_object(), "f");
  EXPECT_EQ(reader.get_int("n").status().message(), "f: n: expected an integer, found a string");
  EXPECT_EQ(reader.get_int("m").status().message(), "f: the key \"m\" is missing");
  EXPECT_FALSE(reader.find_int("z")->has_value());
}

TEST(Random, DependsOnSeedAndCounterAlone) {
  EXPECT_EQ(random_bits(1, 2), random_bits(1, 2));
  EXPECT_NE(random_bits(1, 2), random_bits(2, 1));
  double sum = 0;
  for (std::uint64_t i = 0; i < 100000; ++i) sum += random_uniform(7, i);
  EXPECT_NEAR(sum / 100000, 0.5, 0.005);
}

TEST(CpuTime, IsWhatWasComputedAndNotWhatWentBy) {
  const Duration start = thread_cpu_time();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(thread_cpu_time() - start, std::chrono::milliseconds(100));
  while (thread_cpu_time() - start < std::chrono::milliseconds(5)) {
  }
}

}  // namespace
}  // namespace quire
