#include "serve/protocols/structured_fields.h"

#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/protocols/sampling_fields.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result<SharedConstraint> read(std::string_view text) {
  const auto value = parse_json(text, "test").value();
  const JsonReader fields(value.get_object(), "request", StatusCode::kInvalidArgument);
  SamplingParams params;
  QUIRE_RETURN_IF_ERROR(read_sampling_fields(fields, params));
  QUIRE_RETURN_IF_ERROR(read_constraint_fields(fields, params));
  return params.structured_outputs;
}

StructuredOutputsParams constraint_of(std::string_view text) {
  const auto found = read(text);
  EXPECT_TRUE(found.ok()) << text << ": " << found.status().to_string();
  if (!found.ok() || *found == nullptr) return {};
  return **found;
}

std::string structured_error(std::string_view text) {
  const auto found = read(text);
  EXPECT_FALSE(found.ok()) << text;
  EXPECT_EQ(found.status().code(), StatusCode::kInvalidArgument);
  return found.status().to_string();
}

TEST(StructuredFields, AllNamesOfASchemaMeanTheSame) {
  const char* const schema = R"({"type":"object","properties":{"b":{"type":"null"},"a":true}})";
  const std::string quoted = json::serialize(json::string(schema));
  for (const std::string& text :
       {std::string(R"({"structured_outputs": {"json": )") + schema + "}}",
        std::string(R"({"structured_outputs": {"json": )") + quoted + "}}",
        std::string(R"({"guided_json": )") + schema + "}",
        std::string(R"({"guided_json": )") + quoted + "}",
        std::string(R"({"json_schema": )") + schema + "}",
        std::string(R"({"response_format": {"type": "json_object", "schema": )") + schema + "}}",
        std::string(R"({"response_format": {"type": "json_schema", "json_schema":
                        {"name": "a", "strict": true, "schema": )") +
            schema + "}}}"}) {
    EXPECT_EQ(constraint_of(text).json, schema) << text;
  }
}

TEST(StructuredFields, TheOtherKinds) {
  EXPECT_TRUE(constraint_of(R"({"response_format": {"type": "json_object"}})").json_object);
  EXPECT_TRUE(constraint_of(R"({"structured_outputs": {"json_object": true}})").json_object);
  EXPECT_THAT(constraint_of(R"({"guided_choice": ["a", "b"]})").choice, ElementsAre("a", "b"));
  EXPECT_EQ(constraint_of(R"({"guided_regex": "a+"})").regex, "a+");
  EXPECT_EQ(constraint_of(R"({"regex": "a+"})").regex, "a+");
  for (const char* name : {"guided_grammar", "grammar", "ebnf"}) {
    EXPECT_EQ(constraint_of(std::string("{\"") + name + R"(": "root ::= x"})").grammar,
              "root ::= x");
  }
  EXPECT_EQ(constraint_of(R"({"response_format": {"type": "structural_tag", "format": {}}})")
                .structural_tag,
            R"({"type":"structural_tag","format":{}})");
  const auto with = constraint_of(R"({"guided_json": {}, "guided_whitespace_pattern": " ?"})");
  EXPECT_EQ(with.whitespace_pattern, " ?");
  EXPECT_EQ(with.field, "guided_json");
  EXPECT_EQ(read(R"({"response_format": {"type": "text"}, "grammar": "", "regex": null})").value(),
            nullptr);
}

TEST(StructuredFields, ErrorsNameTheField) {
  EXPECT_THAT(structured_error(R"({"guided_json": 5})"),
              HasSubstr("guided_json: expected an object"));
  EXPECT_THAT(structured_error(R"({"structured_outputs": []})"),
              HasSubstr("structured_outputs: expected an object"));
  EXPECT_THAT(structured_error(R"({"structured_outputs": {"json_object": 1}})"),
              HasSubstr("structured_outputs.json_object: expected true or false"));
  EXPECT_THAT(structured_error(R"({"structured_outputs": {"xml": 1}})"),
              HasSubstr("structured_outputs.xml: there is no such field"));
  EXPECT_THAT(structured_error(R"({"response_format": {"type": "json_schema"}})"),
              HasSubstr("response_format.json_schema: it is missing"));
  EXPECT_THAT(structured_error(R"({"response_format": {"type": "json_schema",
                            "json_schema": {"schema": {}, "strict": 1}}})"),
              HasSubstr("response_format.json_schema.strict"));
  EXPECT_THAT(structured_error(R"({"response_format": {}})"),
              HasSubstr("response_format.type: expected"));
  EXPECT_THAT(structured_error(R"({"structured_outputs": {"regex": "a"}, "guided_choice": ["a"]})"),
              HasSubstr("guided_choice: structured_outputs constrains the text already"));
  EXPECT_THAT(structured_error(R"({"guided_whitespace_pattern": " "})"),
              HasSubstr("guided_whitespace_pattern: there is no JSON"));
}

// A request's own constraint takes the place of a default, whatever it is called.
TEST(StructuredFields, DefaultsGiveWay) {
  StructuredOutputsParams before;
  before.regex = "a";
  SamplingParams params;
  params.structured_outputs = std::make_shared<const StructuredOutputsParams>(before);
  const json::object line = {{"guided_choice", {"b"}}};
  const JsonReader fields(line, "line 1", StatusCode::kInvalidArgument);
  ASSERT_TRUE(read_sampling_fields(fields, params).ok());
  ASSERT_TRUE(read_constraint_fields(fields, params).ok());
  EXPECT_THAT(params.structured_outputs->choice, ElementsAre("b"));
  EXPECT_FALSE(params.structured_outputs->regex);
}

}  // namespace
}  // namespace quire
