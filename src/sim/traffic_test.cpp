#include "sim/traffic.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using testing::HasSubstr;

TEST(TrafficTest, ReadsAzuresLayout) {
  const auto traffic = parse_trace(
      "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
      "2023-11-16 18:17:03.9799600,374,44\r\n"
      "2023-11-16 18:17:04.0319569,396,109\n"
      "2023-11-17 18:17:03.9799600+00:00,9,0\n",
      "azure.csv");
  ASSERT_TRUE(traffic.ok()) << traffic.status().to_string();
  ASSERT_EQ(traffic->arrivals.size(), 3U);
  EXPECT_EQ(traffic->arrivals[0].time, Instant(0));
  EXPECT_EQ(traffic->arrivals[0].input_len, 374);
  EXPECT_EQ(traffic->arrivals[0].output_len, 44);
  EXPECT_EQ(traffic->arrivals[1].time, Instant(51'996'900));
  EXPECT_EQ(traffic->arrivals[2].time, Instant(86'400'000'000'000));
  EXPECT_EQ(traffic->arrivals[2].output_len, 1);  // one that gave nothing is computed all the same
}

TEST(TrafficTest, ReadsMooncakesLayout) {
  const auto traffic = parse_trace(
      R"({"timestamp": 27482, "input_length": 1300, "output_length": 52, "hash_ids": [46, 47]})"
      "\n"
      R"({"timestamp": 27000, "input_length": 700, "output_length": 26, "hash_ids": [46, 48]})"
      "\n",
      "mooncake.jsonl");
  ASSERT_TRUE(traffic.ok()) << traffic.status().to_string();
  ASSERT_EQ(traffic->arrivals.size(), 2U);  // in order of time
  EXPECT_EQ(traffic->arrivals[0].input_len, 700);
  EXPECT_EQ(traffic->arrivals[1].time, Instant(482'000'000));
  const auto shorter = prompt_of(*traffic, 0);
  const auto longer = prompt_of(*traffic, 1);
  ASSERT_EQ(shorter.size(), 700U);
  ASSERT_EQ(longer.size(), 1300U);
  // The piece that both have, and no more.
  EXPECT_TRUE(std::equal(shorter.begin(), shorter.begin() + 512, longer.begin()));
  EXPECT_FALSE(std::equal(shorter.begin() + 512, shorter.begin() + 520, longer.begin() + 512));
  EXPECT_EQ(prompt_of(*traffic, 0), shorter);
}

TEST(TrafficTest, ARefusalNamesTheLine) {
  const auto error = [](std::string_view text) {
    return parse_trace(text, "trace").status().message();
  };
  const std::string header = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  EXPECT_THAT(error("a,b,c\n"), HasSubstr("trace:1: expected the header TIMESTAMP"));
  EXPECT_THAT(error(""), HasSubstr("no requests"));
  EXPECT_THAT(error(header), HasSubstr("no requests"));
  EXPECT_THAT(error(header + "2023-11-16 18:17:03.9,374\n"), HasSubstr("trace:2: expected a time"));
  EXPECT_THAT(error(header + "2023-13-16 18:17:03,374,1\n"), HasSubstr("trace:2"));
  EXPECT_THAT(error(header + "2023-02-30 18:17:03,374,1\n"), HasSubstr("trace:2"));
  EXPECT_THAT(error(header + "2023-11-16 18:17:03,0,1\n"), HasSubstr("0 tokens in"));
  EXPECT_THAT(error(header + "2023-11-16 18:17:03,99999999999,1\n"), HasSubstr("expected 1 to"));
  EXPECT_THAT(error("{\"timestamp\": 1}\n"),
              HasSubstr("trace:1: the key \"input_length\" is missing"));
  EXPECT_THAT(error("{\"timestamp\": 1, \"input_length\": 2, \"output_length\": 3}\n{]\n"),
              HasSubstr("trace:2"));
  EXPECT_THAT(error("{\"timestamp\": 1, \"input_length\": 2, \"output_length\": 3, "
                    "\"hash_ids\": [0.5]}\n"),
              HasSubstr("hash_ids: expected a list of whole numbers"));
}

TEST(TrafficTest, MadeUpTrafficHasItsMeans) {
  TrafficConfig config;
  config.num_requests = 20000;
  config.qps = 10;
  config.input_len = 200;
  config.output_len = 100;
  config.max_len = 4096;
  for (const LengthSpread spread :
       {LengthSpread::kFixed, LengthSpread::kUniform, LengthSpread::kGeometric}) {
    config.spread = spread;
    const Traffic traffic = make_traffic(config);
    double input = 0;
    double output = 0;
    std::set<std::int32_t> lengths;
    for (const Arrival& arrival : traffic.arrivals) {
      input += arrival.input_len;
      output += arrival.output_len;
      lengths.insert(arrival.output_len);
    }
    EXPECT_NEAR(input / 20000, 200, 6);
    EXPECT_NEAR(output / 20000, 100, 3);
    EXPECT_EQ(lengths.size() == 1, spread == LengthSpread::kFixed);
    EXPECT_NEAR(to_seconds(traffic.arrivals.back().time), 2000, 60);
    EXPECT_TRUE(std::ranges::is_sorted(traffic.arrivals, {}, &Arrival::time));
  }
  config.num_prefixes = 3;
  config.prefix_len = 64;
  const Traffic shared = make_traffic(config);
  std::set<std::vector<TokenId>> prefixes;
  for (std::size_t i = 0; i < 50; ++i) {
    auto prompt = prompt_of(shared, i);
    ASSERT_GT(prompt.size(), 64U);
    prompt.resize(64);
    prefixes.insert(prompt);
  }
  EXPECT_EQ(prefixes.size(), 3U);
}

}  // namespace
}  // namespace quire
