#include "serve/why/request_directory.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

using namespace std::chrono_literals;

GenerateRequest request_of(std::int64_t n) {
  GenerateRequest request;
  request.prompt_token_ids = {1, 2, 3};
  request.params.n = n;
  return request;
}

RequestOrigin origin(std::string external_id, std::string caller = {}) {
  RequestOrigin origin;
  origin.external_id = std::move(external_id);
  origin.caller = std::move(caller);
  return origin;
}

RequestOutput end_of(RequestId id, std::int32_t index) {
  RequestOutput output;
  output.request_id = id;
  output.index = index;
  output.finished = true;
  output.finish_reason = FinishReason::kLength;
  output.num_output_tokens = 5;
  return output;
}

TEST(RequestDirectory, KnowsARequestByItsIdAndItsOutputsByName) {
  RequestDirectory directory;
  const auto entry = directory.begin(origin("cmpl-a"), request_of(2), 1ms, 2ms);
  EXPECT_EQ(directory.find("cmpl-a").size(), 2U);
  directory.submitted(entry, 10);
  EXPECT_EQ(directory.name(11), "cmpl-a#1");
  EXPECT_EQ(directory.name(12), "12");
  directory.finished(entry, end_of(10, 1), 9ms);
  const auto outputs = directory.find("cmpl-a");
  EXPECT_EQ(outputs[0].finish_reason, "");
  EXPECT_EQ(outputs[1].finish_reason, "length");
  EXPECT_EQ(outputs[1].told, 9ms);
  EXPECT_TRUE(directory.find("cmpl-b").empty());
}

TEST(RequestDirectory, NamesAnotherKeysRequestsToNobodyElse) {
  RequestDirectory directory;
  directory.submitted(directory.begin(origin("cmpl-a", "key 1"), request_of(1), 1ms, 2ms), 10);
  EXPECT_EQ(directory.name_for("key 1", 10), "cmpl-a");
  EXPECT_EQ(directory.name_for("key 2", 10), "another key");
  EXPECT_EQ(directory.name_for("", 10), "another key");
  EXPECT_EQ(directory.name_for("key 1", 11), "another request");
}

TEST(RequestDirectory, OneIdMayStandForSeveralRequests) {
  RequestDirectory directory;
  const auto second = directory.begin(origin("cmpl-a"), request_of(1), 1ms, 2ms);
  const auto first = directory.begin(origin("cmpl-a"), request_of(1), 1ms, 2ms);
  directory.submitted(first, 10);
  directory.submitted(second, 20);
  const auto outputs = directory.find("cmpl-a");
  ASSERT_EQ(outputs.size(), 2U);
  EXPECT_EQ(outputs[0].output_id, 10);
  directory.refused(first);
  EXPECT_EQ(directory.find("cmpl-a").size(), 1U);
  EXPECT_EQ(directory.name(10), "10");
}

TEST(RequestDirectory, ForgetsTheOldestThatEnded) {
  RequestDirectory directory;
  const auto running = directory.begin(origin("running"), request_of(1), 0ms, 0ms);
  directory.submitted(running, 1);
  for (RequestId id = 2; id < RequestDirectory::kMaxFinished + 12; ++id) {
    const auto entry =
        directory.begin(origin("cmpl-" + std::to_string(id)), request_of(1), 0ms, 0ms);
    directory.submitted(entry, id);
    directory.finished(entry, end_of(id, 0), 1ms);
  }
  EXPECT_TRUE(directory.find("cmpl-2").empty());
  EXPECT_EQ(directory.name(11), "11");
  EXPECT_EQ(directory.find("cmpl-12").size(), 1U);
  EXPECT_EQ(directory.find("running").size(), 1U);
}

TEST(RequestDirectory, KeepsFewerOfThoseThatHadManyOutputs) {
  constexpr std::size_t kOutputs = 128;
  constexpr std::size_t kFit = RequestDirectory::kMaxFinishedOutputs / kOutputs;
  RequestDirectory directory;
  const auto end_one = [&](std::size_t i, std::size_t num_outputs) {
    const RequestId id = 1 + i * kOutputs;
    const auto entry =
        directory.begin(origin("cmpl-" + std::to_string(i)),
                        request_of(static_cast<std::int64_t>(num_outputs)), 0ms, 0ms);
    directory.submitted(entry, id);
    for (std::size_t k = 0; k < num_outputs; ++k) {
      directory.finished(entry, end_of(id, static_cast<std::int32_t>(k)), 1ms);
    }
  };
  for (std::size_t i = 0; i < kFit; ++i) end_one(i, kOutputs);
  EXPECT_EQ(directory.find("cmpl-0").size(), kOutputs);
  end_one(kFit, 1);
  EXPECT_TRUE(directory.find("cmpl-0").empty());
  EXPECT_EQ(directory.name(1), "1");
  EXPECT_EQ(directory.find("cmpl-1").size(), kOutputs);
  EXPECT_EQ(directory.find("cmpl-" + std::to_string(kFit)).size(), 1U);
}

TEST(RequestDirectory, KeepsTheNewestHoweverManyOutputsItHas) {
  constexpr auto kMany = static_cast<std::int32_t>(RequestDirectory::kMaxFinishedOutputs) + 1;
  RequestDirectory directory;
  for (const RequestId id : {RequestId{1}, RequestId{1'000'000}}) {
    const auto entry =
        directory.begin(origin("cmpl-" + std::to_string(id)), request_of(kMany), 0ms, 0ms);
    directory.submitted(entry, id);
    for (std::int32_t i = 0; i < kMany; ++i) directory.finished(entry, end_of(id, i), 1ms);
  }
  EXPECT_TRUE(directory.find("cmpl-1").empty());
  EXPECT_EQ(directory.find("cmpl-1000000").size(), static_cast<std::size_t>(kMany));
}

TEST(RequestDirectory, TellsTheEndOfAnOutputOnceItIsKnown) {
  RequestDirectory directory;
  const auto entry = directory.begin(origin("cmpl-a"), request_of(2), 1ms, 2ms);
  directory.submitted(entry, 10);
  std::vector<std::string> told;
  const auto tell = [&](const std::optional<OutputStory>& story) {
    told.push_back(story ? std::to_string(story->index) + story->finish_reason : "forgotten");
  };
  directory.when_ended(11, tell);
  directory.when_ended(11, tell);
  directory.when_ended(10, tell);
  EXPECT_TRUE(told.empty());
  directory.finished(entry, end_of(10, 1), 9ms);
  EXPECT_EQ(told, (std::vector<std::string>{"1length", "1length"}));
  directory.finished(entry, end_of(10, 0), 9ms);
  EXPECT_EQ(told.size(), 3U);
  EXPECT_EQ(told.back(), "0length");
  directory.when_ended(11, tell);
  EXPECT_EQ(told.back(), "1length");
  directory.when_ended(12, tell);
  EXPECT_EQ(told.back(), "forgotten");
}

}  // namespace
}  // namespace quire
