#include "draft/speculative_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using testing::HasSubstr;

SpeculativeConfig parsed(std::string_view text) {
  const auto config = SpeculativeConfig::parse(text);
  EXPECT_TRUE(config.ok()) << config.status().to_string();
  EXPECT_TRUE(config.ok() && config->has_value());
  return config.ok() ? config->value_or(SpeculativeConfig()) : SpeculativeConfig();
}

TEST(SpeculativeConfig, NamesAndDefaultsAreVllms) {
  const SpeculativeConfig ngram = parsed(R"({"method": "ngram", "num_speculative_tokens": 5})");
  EXPECT_EQ(ngram.method, SpeculativeMethod::kNgram);
  EXPECT_EQ(ngram.num_speculative_tokens, 5);
  EXPECT_EQ(ngram.prompt_lookup_min, 5);
  EXPECT_EQ(ngram.prompt_lookup_max, 5);
  const SpeculativeConfig both = parsed(
      R"({"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 2, "prompt_lookup_max": 4})");
  EXPECT_EQ(both.prompt_lookup_min, 2);
  EXPECT_EQ(both.prompt_lookup_max, 4);
  const SpeculativeConfig one =
      parsed(R"({"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4})");
  EXPECT_EQ(one.prompt_lookup_min, 4);
  const SpeculativeConfig suffix = parsed(
      R"({"method": "suffix", "suffix_decoding_max_tree_depth": 16, "suffix_decoding_min_token_prob": 0.25})");
  EXPECT_EQ(suffix.method, SpeculativeMethod::kSuffix);
  EXPECT_EQ(suffix.num_speculative_tokens, 16);
  EXPECT_EQ(suffix.suffix_max_cached_requests, 0);
  EXPECT_DOUBLE_EQ(suffix.suffix_min_token_prob, 0.25);
  EXPECT_EQ(suffix.max_draft_paths(), 1);
  const auto none = SpeculativeConfig::parse("{}");
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->has_value());
}

TEST(SpeculativeConfig, WhatIsNotThereIsRefusedByName) {
  for (const char* method : {"mlp_speculator", "dflash", "qwen3_next_mtp"}) {
    const auto config = SpeculativeConfig::parse(
        std::string(R"({"num_speculative_tokens": 3, "model": "m", "method": ")") + method + "\"}");
    EXPECT_EQ(config.status().code(), StatusCode::kUnimplemented);
    EXPECT_THAT(config.status().message(), HasSubstr(method));
  }
}

TEST(SpeculativeConfig, AModelDraftsWithOrWithoutItsMethod) {
  for (const char* method : {R"("method": "draft_model", )", ""}) {
    const SpeculativeConfig config =
        parsed(std::string("{") + method + R"("model": "small", "num_speculative_tokens": 4})");
    EXPECT_EQ(config.method, SpeculativeMethod::kDraftModel);
    EXPECT_EQ(config.model, "small");
    EXPECT_EQ(config.to_text(), "draft_model, up to 4 tokens, by small");
  }
}

TEST(SpeculativeConfig, TreesAreVllmsOrMedusas) {
  const std::vector<std::int32_t> parents = {-1, 0, 0, 1};
  for (const char* tree :
       {R"("[(0,), (0, 0), (0, 1), (0, 0, 0)]")", R"("[(0,),(0,0,),(0,1),(0,0,0),]")",
        "[[0], [0, 0], [0, 1], [0, 0, 0]]"}) {
    const SpeculativeConfig config =
        parsed(std::string(R"({"method": "medusa", "model": "m", "speculative_token_tree": )") +
               tree + "}");
    EXPECT_EQ(config.token_tree, parents) << tree;
    EXPECT_EQ(config.num_speculative_tokens, 4);
    EXPECT_EQ(config.max_draft_paths(), 2);
    EXPECT_EQ(config.to_text(), "medusa, up to 4 tokens, by m, on up to 2 paths");
  }
  for (const char* method : {"draft_model", "eagle", "eagle3"}) {
    const auto config_of = [&](const char* tree) {
      return SpeculativeConfig::parse(std::string(R"({"model": "m", "method": ")") + method +
                                      R"(", "speculative_token_tree": )" + tree + "}");
    };
    EXPECT_EQ(config_of("[[0], [1], [0, 0], [0, 1]]")->value().max_draft_paths(), 3);
    EXPECT_THAT(config_of("[[0], [1], [1, 0]]").status().message(),
                HasSubstr("continues first choices alone"));
  }
  const SpeculativeConfig usual =
      parsed(R"({"method": "medusa", "model": "m", "num_speculative_tokens": 6})");
  EXPECT_EQ(usual.num_speculative_tokens, 6);
  EXPECT_EQ(usual.token_tree.size(), 32U);
  EXPECT_GT(usual.max_draft_paths(), 4);
}

TEST(SpeculativeConfig, ErrorsNameKeyAndValue) {
  const auto expect_error = [](std::string_view text, std::string_view what) {
    const auto config = SpeculativeConfig::parse(text);
    EXPECT_EQ(config.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(config.status().to_string(), HasSubstr(std::string(what)));
  };
  expect_error("ngram", "JSON object such as");
  expect_error("[]", "expected an object");
  expect_error(R"({"num_speculative_tokens": 3})", "method is missing");
  expect_error(R"({"method": "magic"})", "magic");
  expect_error(R"({"method": "ngram"})", "num_speculative_tokens is missing");
  expect_error(R"({"method": "ngram", "num_speculative_tokens": 33})", "1 to 32");
  expect_error(R"({"method": "ngram", "num_speculative_tokens": 1.5})", "whole number");
  expect_error(R"({"method": "ngram", "num_speculative_tokens": 2, "draft": 1})", "draft");
  expect_error(
      R"({"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_min": 3, "prompt_lookup_max": 2})",
      "prompt_lookup_min 3");
  expect_error(R"({"method": "draft_model", "num_speculative_tokens": 4})", "model is missing");
  expect_error(R"({"method": "medusa", "num_speculative_tokens": 4})", "model is missing");
  expect_error(R"({"method": "ngram", "model": "m", "num_speculative_tokens": 4})",
               "model is not of method \"ngram\"");
  expect_error(R"({"model": "m"})", "num_speculative_tokens is missing");
  expect_error(R"({"method": "suffix", "prompt_lookup_max": 2})", "not of method \"suffix\"");
  expect_error(R"({"method": "suffix", "suffix_decoding_min_token_prob": 2})",
               "suffix_decoding_min_token_prob is 2");
  expect_error(R"({"method": "suffix", "suffix_decoding_max_tree_width": 9})",
               "suffix_decoding_max_tree_width is 9");
  expect_error(R"({"method": "ngram", "num_speculative_tokens": 4,
                   "suffix_decoding_max_tree_width": 2})",
               "is not of method");
}

TEST(SpeculativeConfig, TreesThatAreNoneAreRefused) {
  const auto expect_error = [](std::string_view tree, std::string_view what) {
    const auto config = SpeculativeConfig::parse(
        R"({"method": "medusa", "model": "m", "speculative_token_tree": )" + std::string(tree) +
        "}");
    EXPECT_EQ(config.status().code(), StatusCode::kInvalidArgument) << tree;
    EXPECT_THAT(config.status().message(), HasSubstr("speculative_token_tree"));
    EXPECT_THAT(config.status().message(), HasSubstr(std::string(what))) << tree;
  };
  expect_error("3", "a list of 1 to 32 paths");
  expect_error("[]", "a list of 1 to 32 paths");
  expect_error(R"x("os.system(1)")x", "a list of tuples");
  expect_error("[[]]", "not empty");
  expect_error("[[0], 1]", "not empty");
  expect_error("[[0], [0, -1]]", "choices from 0 to 31");
  expect_error("[[0], [0, 1.5]]", "choices from 0 to 31");
  expect_error("[[0, 0], [0]]", "path (0, 0) comes without (0) before it");
  expect_error("[[0], [2]]", "path (2) comes without (1) before it");
  expect_error("[[0], [0]]", "path (0) comes twice");
  const auto other = SpeculativeConfig::parse(
      R"({"method": "ngram", "num_speculative_tokens": 2, "speculative_token_tree": [[0]]})");
  EXPECT_THAT(other.status().message(), HasSubstr("is not of method \"ngram\""));
}

TEST(SpeculativeConfig, SaysWhatItIs) {
  EXPECT_EQ(parsed(R"({"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_min": 2,
                       "prompt_lookup_max": 4})")
                .to_text(),
            "ngram, up to 5 tokens, after matches of 2 to 4");
}

}  // namespace
}  // namespace quire
