#include "core/structured_outputs.h"

#include <memory>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/sampling_params.h"
#include "core/structured_outputs_json.h"

namespace quire {
namespace {

using testing::HasSubstr;

StructuredOutputsParams regex_of(std::string pattern) {
  StructuredOutputsParams params;
  params.regex = std::move(pattern);
  return params;
}

std::string error_of(const StructuredOutputsParams& params) {
  const Status status = params.validate();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  return status.to_string();
}

TEST(StructuredOutputs, OneConstraintOfEachKindHolds) {
  EXPECT_TRUE(regex_of("").validate().ok());  // the empty text
  StructuredOutputsParams params;
  params.json = "{}";
  params.whitespace_pattern = "[ ]?";
  params.disable_additional_properties = true;
  EXPECT_TRUE(params.validate().ok());
  params = {};
  params.choice = {"", "a"};
  EXPECT_TRUE(params.validate().ok());
  params = {};
  params.json_object = true;
  params.disable_any_whitespace = true;
  EXPECT_TRUE(params.validate().ok());
}

TEST(StructuredOutputs, WhatIsWrongIsNamedAfterTheField) {
  StructuredOutputsParams params;
  EXPECT_THAT(error_of(params), HasSubstr("structured_outputs: no constraints are given"));
  params = regex_of("a");
  params.json_object = true;
  params.field = "guided_json";
  EXPECT_THAT(error_of(params), HasSubstr("guided_json: several constraints are given: regex, "
                                          "json_object"));
  params = regex_of("a");
  params.disable_any_whitespace = true;
  EXPECT_THAT(error_of(params), HasSubstr("regex has no option of JSON texts"));
  params = {};
  params.json = "{}";
  params.disable_any_whitespace = true;
  params.whitespace_pattern = " *";
  EXPECT_THAT(error_of(params), HasSubstr("contradicts disable_any_whitespace"));
  params = {};
  params.grammar = "";
  EXPECT_THAT(error_of(params), HasSubstr("grammar is empty"));
  params = {};
  params.choice = {""};
  EXPECT_THAT(error_of(params), HasSubstr("the only text is empty"));
}

TEST(StructuredOutputs, TextsAreLimited) {
  const std::string most(StructuredOutputsParams::kMaxBytes, 'a');
  EXPECT_TRUE(regex_of(most).validate().ok());
  EXPECT_THAT(error_of(regex_of(most + 'a')), HasSubstr("at most 2097152 are allowed"));
  StructuredOutputsParams params;
  params.choice.assign(StructuredOutputsParams::kMaxChoices, "a");
  EXPECT_TRUE(params.validate().ok());
  params.choice.emplace_back("a");
  EXPECT_THAT(error_of(params), HasSubstr("choice has 65537 texts"));
}

// What is shown can be read again.
TEST(StructuredOutputs, AreShownAsTheyAreRead) {
  StructuredOutputsParams params;
  params.json = R"({"type":"string"})";
  params.disable_any_whitespace = true;
  auto again = read_structured_outputs(show_structured_outputs(params), params.field);
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(*again, params);
  params = {};
  params.choice = {"a", "b"};
  again = read_structured_outputs(show_structured_outputs(params), params.field);
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(*again, params);
}

TEST(StructuredOutputs, SamplingParamsAreCheckedWithThem) {
  SamplingParams params;
  params.structured_outputs = std::make_shared<const StructuredOutputsParams>();
  EXPECT_FALSE(params.validate(/*vocab_size=*/10).ok());
  params.structured_outputs = std::make_shared<const StructuredOutputsParams>(regex_of("a"));
  EXPECT_TRUE(params.validate(/*vocab_size=*/10).ok());
}

}  // namespace
}  // namespace quire
