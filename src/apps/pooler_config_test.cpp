#include "apps/pooler_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

EngineArgs args_of(const std::string& text) {
  EngineArgs args;
  const Status status = read_pooler_config("--pooler-config", text, args);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return args;
}

TEST(PoolerConfig, TakesHowToPoolAndWhetherToNormalize) {
  const EngineArgs args = args_of(R"({"pooling_type": "MEAN", "normalize": false})");
  EXPECT_EQ(args.pooling_type, "MEAN");
  EXPECT_EQ(args.normalize_embeddings, false);
  const EngineArgs newer = args_of(R"({"seq_pooling_type": "CLS", "use_activation": true})");
  EXPECT_EQ(newer.pooling_type, "CLS");
  EXPECT_EQ(newer.normalize_embeddings, true);
}

TEST(PoolerConfig, WhatAsksForNothing) {
  for (const char* text : {"", "None", "null", "{}",
                           R"({"pooling_type": null, "normalize": null, "step_tag_id": null,
                               "enable_chunked_processing": false})"}) {
    const EngineArgs args = args_of(text);
    EXPECT_EQ(args.pooling_type, "auto") << text;
    EXPECT_EQ(args.normalize_embeddings, std::nullopt) << text;
  }
}

TEST(PoolerConfig, RefusesTheRestByName) {
  const auto refused = [](const std::string& text, StatusCode code, const std::string& what) {
    EngineArgs args;
    const Status status = read_pooler_config("--override-pooler-config", text, args);
    EXPECT_EQ(status.code(), code) << text;
    EXPECT_THAT(status.message(), AllOf(HasSubstr("--override-pooler-config"), HasSubstr(what)));
  };
  refused("MEAN", StatusCode::kInvalidArgument, "");
  refused(R"(["MEAN"])", StatusCode::kInvalidArgument, "expected an object");
  refused(R"({"pooling_type": 1})", StatusCode::kInvalidArgument, "pooling_type");
  refused(R"({"normalize": "yes"})", StatusCode::kInvalidArgument, "normalize");
  refused(R"({"dimensions": 64})", StatusCode::kUnimplemented, "dimensions");
  refused(R"({"enable_chunked_processing": true})", StatusCode::kUnimplemented,
          "enable_chunked_processing");
}

}  // namespace
}  // namespace quire
