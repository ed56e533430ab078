#include "apps/sampling_flags.h"

#include <chrono>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/batch_input.h"
#include "serve/protocols/sampling_fields.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<SamplingParams> read(std::string_view text) {
  const auto value = parse_json(text, "test").value();
  SamplingParams params;
  QUIRE_RETURN_IF_ERROR(read_sampling_fields(
      JsonReader(value.get_object(), "test", StatusCode::kInvalidArgument), params));
  return params;
}

TEST(SamplingFields, EveryFieldIsRead) {
  const auto params = read(R"({"n": 2, "presence_penalty": 0.5, "frequency_penalty": -0.5,
      "repetition_penalty": 1.5, "temperature": 0.25, "top_p": 0.75, "top_k": 9, "min_p": 0.125,
      "seed": 11, "stop": ["a", "b"], "stop_token_ids": [3], "bad_words": "word",
      "include_stop_str_in_output": true, "ignore_eos": true, "max_tokens": 21, "min_tokens": 4,
      "logprobs": 5, "prompt_logprobs": 0, "skip_special_tokens": false,
      "logit_bias": {"7": -100, "8": 2.5}, "allowed_token_ids": [1, 2]})");
  ASSERT_TRUE(params.ok()) << params.status().to_string();
  EXPECT_EQ(params->n, 2);
  EXPECT_EQ(params->presence_penalty, 0.5);
  EXPECT_EQ(params->frequency_penalty, -0.5);
  EXPECT_EQ(params->repetition_penalty, 1.5);
  EXPECT_EQ(params->temperature, 0.25);
  EXPECT_EQ(params->top_p, 0.75);
  EXPECT_EQ(params->top_k, 9);
  EXPECT_EQ(params->min_p, 0.125);
  EXPECT_EQ(params->seed, 11U);
  EXPECT_THAT(params->stop, ElementsAre("a", "b"));
  EXPECT_THAT(params->stop_token_ids, ElementsAre(3));
  EXPECT_THAT(params->bad_words, ElementsAre("word"));
  EXPECT_TRUE(params->include_stop_str_in_output);
  EXPECT_TRUE(params->ignore_eos);
  EXPECT_EQ(params->max_tokens, 21);
  EXPECT_EQ(params->min_tokens, 4);
  EXPECT_EQ(params->logprobs, 5);
  EXPECT_EQ(params->prompt_logprobs, 0);
  EXPECT_FALSE(params->skip_special_tokens);
  ASSERT_EQ(params->logit_bias.size(), 2U);
  EXPECT_EQ(params->logit_bias[0].token_id, 7);
  EXPECT_EQ(params->logit_bias[0].bias, -100.0F);
  EXPECT_EQ(params->logit_bias[1].bias, 2.5F);
  EXPECT_THAT(params->allowed_token_ids, ElementsAre(1, 2));
}

TEST(SamplingFields, WrongConstraintsAreRefusedWithoutAModel) {
  const auto message = [](const char* constraint) {
    const json::object given = {{"structured_outputs", parse_json(constraint, "test").value()}};
    return check_sampling_fields(given).to_string();
  };
  EXPECT_THAT(message(R"({"json": {"properties": {"a": {"type": "strin"}}}})"),
              HasSubstr("structured_outputs: JSON Schema: type at #/properties/a/type"));
  EXPECT_THAT(message(R"({"json": "{\"type\": "})"), HasSubstr("structured_outputs: "));
  EXPECT_THAT(message(R"({"regex": "(a"})"), HasSubstr("line 1, column 3"));
  EXPECT_THAT(message(R"({"grammar": "root ::= foo"})"), HasSubstr("there is no rule \"foo\""));
  EXPECT_TRUE(
      check_sampling_fields({{"structured_outputs", {{"json", {{"type", "object"}}}}}}).ok());
}

// A value of another type is an error that names the field, for each of them.
TEST(SamplingFields, WrongTypesNameTheField) {
  for (const SamplingField& field : sampling_fields()) {
    for (const char* value : {"[[]]", "[1.5]"}) {
      const std::string text = "{\"" + std::string(field.name) + "\": " + value + "}";
      const auto params = read(text);
      ASSERT_FALSE(params.ok()) << text;
      EXPECT_EQ(params.status().code(), StatusCode::kInvalidArgument);
      EXPECT_THAT(params.status().message(), HasSubstr(field.name));
    }
  }
  EXPECT_FALSE(read(R"({"logit_bias": {"x": 1}})").ok());
  EXPECT_FALSE(read(R"({"logit_bias": {"-1": 1}})").ok());
  EXPECT_FALSE(read(R"({"logit_bias": {"1": "2"}})").ok());
  EXPECT_FALSE(read(R"({"seed": -1})").ok());
  EXPECT_FALSE(read(R"({"stop_token_ids": [-1]})").ok());
  EXPECT_FALSE(read(R"({"top_k": 18446744073709551615})").ok());
}

// The schema's defaults are the parameters', and its limits are where validation draws the line.
TEST(SamplingFields, RulesAreThoseOfSamplingParams) {
  for (const SamplingField& field : sampling_fields()) {
    const auto with = [&](double value) {
      const std::string number = field.kind == SamplingFieldKind::kInteger
                                     ? std::to_string(static_cast<std::int64_t>(value))
                                     : std::to_string(value);
      // Which has a meaning there alone.
      const std::string search = field.name == "length_penalty" ? "\"beam_width\": 2, " : "";
      return read("{" + search + "\"" + std::string(field.name) + "\": " + number + "}")
          .value()
          .validate(200);
    };
    const double step = field.kind == SamplingFieldKind::kInteger ? 1.0 : 0.001;
    const bool in_reader = field.name == "seed";
    if (const auto* low = field.rules.if_contains("minimum"); low != nullptr && !in_reader) {
      EXPECT_TRUE(with(low->to_number<double>()).ok()) << field.name;
      EXPECT_FALSE(with(low->to_number<double>() - step).ok()) << field.name;
    }
    if (const auto* low = field.rules.if_contains("exclusiveMinimum")) {
      EXPECT_FALSE(with(low->to_number<double>()).ok()) << field.name;
      EXPECT_TRUE(with(low->to_number<double>() + step).ok()) << field.name;
    }
    if (const auto* high = field.rules.if_contains("maximum")) {
      EXPECT_TRUE(with(high->to_number<double>()).ok()) << field.name;
      EXPECT_FALSE(with(high->to_number<double>() + step).ok()) << field.name;
    }
  }
}

TEST(SamplingFields, SchemaListsEveryFieldOfALine) {
  const json::object schema = batch_line_schema();
  const json::object& properties = schema.at("properties").as_object();
  for (const SamplingField& field : sampling_fields()) {
    ASSERT_TRUE(properties.contains(field.name)) << field.name;
    EXPECT_TRUE(properties.at(field.name).as_object().contains("description"));
  }
  for (const char* name : {"id", "prompt", "messages", "prompt_token_ids", "priority"}) {
    EXPECT_TRUE(properties.contains(name)) << name;
  }
  EXPECT_EQ(schema.at("additionalProperties"), false);
}

TEST(BatchInput, UnknownFieldsAreNamed) {
  const BatchLine line = parse_batch_line(R"({"prompt": "x", "temprature": 1})", 3, {});
  ASSERT_TRUE(std::holds_alternative<LineError>(line));
  EXPECT_THAT(std::get<LineError>(line).status.message(), HasSubstr("\"temprature\""));
}

TEST(BatchInput, ValuesOfALineGoOverTheDefaults) {
  SamplingParams defaults;
  defaults.temperature = 0.5;
  defaults.top_k = 4;
  const BatchLine line = parse_batch_line(
      R"({"prompt": "x", "top_k": 7, "max_tokens": null, "priority": -2})", 1, defaults);
  ASSERT_TRUE(std::holds_alternative<BatchRequest>(line));
  const auto& request = std::get<BatchRequest>(line);
  EXPECT_EQ(request.params.temperature, 0.5);
  EXPECT_EQ(request.params.top_k, 7);
  EXPECT_EQ(request.queue.priority, -2);
  EXPECT_FALSE(request.max_tokens_given);
}

TEST(BatchInput, ALineSaysHowItStandsAmongOthers) {
  const BatchLine line = parse_batch_line(
      R"({"prompt": "x", "user": "ada", "deadline_ms": 1.5, "cache_salt": "s"})", 1, {});
  ASSERT_TRUE(std::holds_alternative<BatchRequest>(line));
  const QueueFields& queue = std::get<BatchRequest>(line).queue;
  EXPECT_EQ(queue.user, "ada");
  EXPECT_EQ(queue.deadline, std::chrono::microseconds(1500));
  EXPECT_EQ(queue.cache_salt, "s");
  for (const char* wrong :
       {R"("deadline_ms": -1)", R"("deadline_ms": 1e9)", R"("cache_salt": "")", R"("user": 5)"}) {
    const BatchLine refused =
        parse_batch_line(fmt::format(R"({{"prompt": "x", {}}})", wrong), 1, {});
    EXPECT_TRUE(std::holds_alternative<LineError>(refused)) << wrong;
  }
}

}  // namespace
}  // namespace quire
