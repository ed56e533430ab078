// Constrained text as the engine's callers see it, on a tiny model with random weights, which by
// itself writes none of it: constraints of each kind, together with all else that a request may ask
// for, and what cannot be.
#include <cmath>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "engine/api.h"
#include "support/collector.h"
#include "support/test_models.h"

namespace quire::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;

StructuredOutputsParams regex_of(const std::string& pattern) {
  StructuredOutputsParams constraint;
  constraint.regex = pattern;
  return constraint;
}

StructuredOutputsParams choice_of(std::vector<std::string> texts) {
  StructuredOutputsParams constraint;
  constraint.choice = std::move(texts);
  return constraint;
}

class StructuredOutputs : public testing::Test {
 protected:
  void start(EngineArgs args = {}) {
    args.model = tiny_llama("hf");
    args.threads = 2;
    auto engine = Engine::create(args, {});
    ASSERT_TRUE(engine.ok()) << engine.status().to_string();
    engine_ = std::move(*engine);
  }

  GenerateRequest request(const StructuredOutputsParams& constraint,
                          std::int64_t max_tokens = 64) const {
    GenerateRequest request;
    request.prompt_token_ids = *engine_->encode_text("The quick brown fox");
    request.params.temperature = 0;
    request.params.max_tokens = max_tokens;
    request.params.structured_outputs = std::make_shared<const StructuredOutputsParams>(constraint);
    return request;
  }

  std::vector<Output> run(GenerateRequest request) {
    Collector collector(1);
    const auto id = engine_->submit(std::move(request), collector.sink(0));
    EXPECT_TRUE(id.ok()) << id.status().to_string();
    if (!id.ok()) return std::vector<Output>(1);
    collector.wait_for(1);
    return collector.take()[0];
  }

  // The error that a request ends with after it was taken.
  Status failure(GenerateRequest request) {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<Status> errors;
    bool done = false;
    const auto id = engine_->submit(std::move(request), [&](const RequestOutput& output) {
      const std::lock_guard lock(mutex);
      if (output.finished) errors.push_back(output.error);
      done = output.request_finished;
      changed.notify_one();
    });
    EXPECT_TRUE(id.ok()) << id.status().to_string();
    if (!id.ok()) return id.status();
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done; });
    for (const Status& each : errors) EXPECT_EQ(each.to_string(), errors[0].to_string());
    return errors[0];
  }

  Status refusal(const StructuredOutputsParams& constraint) {
    const auto id =
        engine_->submit(request(constraint), [](const RequestOutput&) { ADD_FAILURE(); });
    EXPECT_FALSE(id.ok());
    return id.status();
  }

  std::unique_ptr<Engine> engine_;
};

TEST_F(StructuredOutputs, RegexHoldsTheWholeText) {
  start();
  for (const char* pattern : {"[0-9]{3}-[a-z]{2,5}", "(the|a) (cat|dog)\\.", "x?y+z{3}"}) {
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      GenerateRequest one = request(regex_of(pattern), 200);
      one.params.temperature = 1;
      one.params.seed = seed;
      const Output output = run(one)[0];
      EXPECT_TRUE(std::regex_match(output.text, std::regex(pattern))) << output.text;
      EXPECT_EQ(output.last.finish_reason, FinishReason::kStop);
    }
  }
}

// Whatever the model would rather write: near the limit it has to come to the end.
TEST_F(StructuredOutputs, EnsureCloseEndsInTime) {
  start();
  StructuredOutputsParams constraint;
  constraint.json = R"({"type": "object", "additionalProperties": false, "required": ["a"],
      "properties": {"a": {"type": "array", "items": {"type": "string", "minLength": 3}},
                     "b": {"type": "string"}}})";
  int cut = 0;
  for (const std::int64_t max_tokens : {16, 20, 31, 48}) {
    for (const bool closes : {false, true}) {
      GenerateRequest one = request(constraint, max_tokens);
      one.params.temperature = 1.5;
      one.params.n = 8;
      one.params.ensure_close = closes;
      for (const Output& output : run(one)) {
        if (!closes) {
          if (output.last.finish_reason == FinishReason::kLength) ++cut;
          continue;
        }
        EXPECT_EQ(output.last.finish_reason, FinishReason::kStop) << output.text;
        const auto value = parse_json(output.text, "output");
        ASSERT_TRUE(value.ok()) << output.text;
        EXPECT_TRUE(value->at("a").is_array()) << output.text;
        EXPECT_LE(std::ssize(output.token_ids), max_tokens);
      }
    }
  }
  EXPECT_GT(cut, 0);  // without it some would not have ended
}

TEST_F(StructuredOutputs, EnsureCloseIsRefusedWhereItCannotBe) {
  start();
  const auto error_of = [this](GenerateRequest request) {
    request.params.ensure_close = true;
    const auto id =
        engine_->submit(std::move(request), [](const RequestOutput&) { ADD_FAILURE(); });
    EXPECT_EQ(id.status().code(), StatusCode::kInvalidArgument);
    return id.status().to_string();
  };
  EXPECT_THAT(error_of(request(regex_of("[0-9]{40}"), 10)),
              AllOf(HasSubstr("ensure_close: the shortest text"), HasSubstr("room for 10")));
  GenerateRequest some = request(regex_of("[0-9]{4}"), 10);
  some.params.allowed_token_ids = {5, 6};
  EXPECT_THAT(error_of(some), HasSubstr("allowed_token_ids"));
  // Without a constraint there is nothing to close.
  GenerateRequest free = request(regex_of("a"), 4);
  free.params.structured_outputs = nullptr;
  free.params.ensure_close = true;
  EXPECT_EQ(run(free)[0].token_ids.size(), 4U);
}

TEST_F(StructuredOutputs, EachOutputIsOneOfTheChoices) {
  start();
  const std::vector<std::string> choices = {"yes", "no", "yes and no", "maybe"};
  GenerateRequest many = request(choice_of(choices));
  many.params.n = 24;
  many.params.temperature = 1.5;
  std::set<std::string> seen;
  for (const Output& output : run(many)) {
    EXPECT_THAT(choices, Contains(output.text));
    EXPECT_EQ(output.last.finish_reason, FinishReason::kStop);
    seen.insert(output.text);
  }
  EXPECT_GT(seen.size(), 1U);
}

TEST_F(StructuredOutputs, JsonIsValidUnderItsSchema) {
  start();
  StructuredOutputsParams constraint;
  constraint.json = R"({"type": "object", "additionalProperties": false,
      "properties": {"name": {"type": "string", "pattern": "^[a-z]{2,8}$"},
                     "age": {"type": "integer", "minimum": 7, "maximum": 42},
                     "kind": {"enum": ["cat", "dog", null]}},
      "required": ["name", "age", "kind"]})";
  constraint.disable_any_whitespace = true;
  GenerateRequest many = request(constraint, 120);
  many.params.n = 16;
  many.params.temperature = 1.5;
  for (const Output& output : run(many)) {
    ASSERT_EQ(output.last.finish_reason, FinishReason::kStop) << output.text;
    EXPECT_EQ(output.text.find(' '), std::string::npos);
    const auto value = parse_json(output.text, "output");
    ASSERT_TRUE(value.ok()) << output.text;
    const json::object& object = value->as_object();
    EXPECT_EQ(object.size(), 3U);
    EXPECT_TRUE(
        std::regex_match(std::string(object.at("name").as_string()), std::regex("[a-z]{2,8}")));
    const auto age = object.at("age").to_number<double>();  // 12.0 is an integer
    EXPECT_EQ(age, std::floor(age)) << output.text;
    EXPECT_GE(age, 7) << output.text;
    EXPECT_LE(age, 42) << output.text;
    EXPECT_TRUE(object.at("kind").is_null() || object.at("kind") == "cat" ||
                object.at("kind") == "dog");
  }
  StructuredOutputsParams wrong;
  wrong.json = R"({"type": "integr"})";
  EXPECT_THAT(refusal(wrong).message(), testing::StartsWith("structured_outputs: "));
}

TEST_F(StructuredOutputs, GrammarsMayRecur) {
  start();
  StructuredOutputsParams constraint;
  constraint.grammar = "root ::= \"(\" root? \")\" | \"[\" root? \"]\"";
  GenerateRequest many = request(constraint, 200);
  many.params.n = 8;
  many.params.temperature = 1;
  for (const Output& output : run(many)) {
    if (output.last.finish_reason == FinishReason::kLength) continue;
    const std::string& text = output.text;
    ASSERT_FALSE(text.empty());
    ASSERT_EQ(text.size() % 2, 0U);
    for (std::size_t i = 0; i < text.size() / 2; ++i) {
      EXPECT_EQ(text[text.size() - 1 - i], text[i] == '(' ? ')' : ']') << text;
    }
  }
}

TEST_F(StructuredOutputs, ACutTextIsTheBeginningOfOneThatHolds) {
  start();
  const Output output = run(request(regex_of("(ab){100}c"), 7))[0];
  EXPECT_EQ(output.last.finish_reason, FinishReason::kLength);
  EXPECT_EQ(output.token_ids.size(), 7U);
  EXPECT_EQ(output.text, std::string("ababababababababababab").substr(0, output.text.size()));
}

// The mask is of the tokens, so a token's log probability is still the model's own.
TEST_F(StructuredOutputs, LogprobsAreOfTheModel) {
  start();
  GenerateRequest constrained = request(regex_of("zzzz"));
  constrained.params.logprobs = 3;
  const Output output = run(constrained)[0];
  EXPECT_EQ(output.text, "zzzz");
  GenerateRequest scored;
  scored.prompt_token_ids = constrained.prompt_token_ids;
  scored.prompt_token_ids.insert(scored.prompt_token_ids.end(), output.token_ids.begin(),
                                 output.token_ids.end());
  scored.params.prompt_logprobs = 3;
  scored.params.max_tokens = 1;
  Collector collector(1);
  ASSERT_TRUE(engine_->submit(std::move(scored), collector.sink(0)).ok());
  collector.wait_for(1);
  const auto& prompt = collector.prompt_logprobs();
  std::vector<std::uint32_t> bits;
  for (std::size_t i = prompt.size() - output.token_ids.size(); i < prompt.size(); ++i) {
    bits.push_back(std::bit_cast<std::uint32_t>(prompt[i].token.logprob));
    for (const TokenLogprob& each : prompt[i].top) {
      bits.push_back(static_cast<std::uint32_t>(each.token_id));
      bits.push_back(std::bit_cast<std::uint32_t>(each.logprob));
    }
  }
  EXPECT_EQ(output.logprob_bits, bits);
}

TEST_F(StructuredOutputs, CombineWithWhatElseARequestAsks) {
  start();
  GenerateRequest longer = request(regex_of("[a-z ]+"));
  longer.params.min_tokens = 20;
  longer.params.max_tokens = 24;
  EXPECT_GE(run(longer)[0].token_ids.size(), 20U);

  GenerateRequest stopped = request(regex_of("[ab]{40}c"));
  stopped.params.stop = {"a"};
  stopped.params.logit_bias = {{*engine_->tokenizer().find("a"), 5.0F}};
  const Output at_stop = run(stopped)[0];
  EXPECT_EQ(at_stop.last.stop_string, "a");
  EXPECT_THAT(at_stop.text, Each('b'));

  // The grammar goes before words that should not come, as the last token that is left does.
  GenerateRequest bad = request(choice_of({"xx"}));
  bad.params.bad_words = {"x", "xx"};
  EXPECT_EQ(run(bad)[0].text, "xx");

  GenerateRequest allowed = request(regex_of("[a-z]{6}"));
  allowed.params.allowed_token_ids = {*engine_->tokenizer().find("q"),
                                      engine_->tokenizer().eos_ids()[0]};
  EXPECT_EQ(run(allowed)[0].text, "qqqqqq");

  // What comes behind the end of the sequence is the end again: no text.
  GenerateRequest on = request(regex_of("[0-9]{3}"), 12);
  on.params.ignore_eos = true;
  const Output filled = run(on)[0];
  EXPECT_EQ(filled.token_ids.size(), 12U);
  EXPECT_TRUE(std::regex_match(filled.text, std::regex("[0-9]{3}"))) << filled.text;
}

TEST_F(StructuredOutputs, SpecialStopTokensEndWhereTheTextCan) {
  start();
  const TokenId stop = *engine_->tokenizer().find("<|im_start|>");
  GenerateRequest one = request(regex_of("[0-9]{2}"));
  one.params.stop_token_ids = {stop};
  one.params.logit_bias = {{stop, 100.0F}};
  const Output output = run(one)[0];
  EXPECT_EQ(output.last.stop_token_id, stop);
  EXPECT_TRUE(std::regex_match(output.text, std::regex("[0-9]{2}"))) << output.text;
}

// What leaves no token ends that request, with all its outputs, and nobody else.
TEST_F(StructuredOutputs, WhatCannotBeEndsItsRequestAlone) {
  start();
  GenerateRequest other = request(regex_of("[a-z]{30}"));
  const Output alone = run(other)[0];

  GenerateRequest too_short = request(choice_of({"yes", "no"}));
  too_short.params.min_tokens = 40;
  too_short.params.n = 3;
  GenerateRequest not_allowed = request(regex_of("[0-9]+"));
  not_allowed.params.allowed_token_ids = {*engine_->tokenizer().find("q")};

  Collector collector(1);
  ASSERT_TRUE(engine_->submit(other, collector.sink(0)).ok());
  const Status first = failure(too_short);
  EXPECT_EQ(first.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(first.to_string(),
              AllOf(HasSubstr("structured_outputs: "), HasSubstr("min_tokens is 40")));
  const Status second = failure(not_allowed);
  EXPECT_THAT(second.to_string(), AllOf(HasSubstr("structured_outputs: after 0 tokens"),
                                        HasSubstr("allowed_token_ids")));
  collector.wait_for(1);
  EXPECT_EQ(collector.take()[0][0], alone);
  EXPECT_EQ(engine_->observe().blocks_leaked, 0);
  EXPECT_EQ(engine_->observe().num_running, 0);
}

TEST_F(StructuredOutputs, ErrorsOfAConstraintNameItsField) {
  start();
  const Status regex = refusal(regex_of("a(b"));
  EXPECT_EQ(regex.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(regex.message(), testing::StartsWith("structured_outputs: "));
  StructuredOutputsParams none;
  EXPECT_THAT(refusal(none).message(), HasSubstr("no constraints are given"));
  StructuredOutputsParams two = regex_of("a");
  two.choice = {"a"};
  EXPECT_THAT(refusal(two).message(), HasSubstr("several constraints are given: regex, choice"));
  StructuredOutputsParams named = regex_of("[");
  named.field = "guided_regex";
  EXPECT_THAT(refusal(named).message(), testing::StartsWith("guided_regex: "));
  EXPECT_FALSE(engine_->prepare(request(named).params).ok());
  EXPECT_THAT(engine_->observe().num_added, 0);
}

TEST_F(StructuredOutputs, WhatWasCompiledIsKept) {
  start();
  const GenerateRequest one = request(regex_of("[a-f]{4}"));
  EXPECT_FALSE(engine_->is_prepared(one.params));
  const auto first = run(one)[0].last.constraint;
  ASSERT_TRUE(first.has_value());
  EXPECT_FALSE(first->cached);
  EXPECT_GT(first->compile_ms, 0);
  EXPECT_TRUE(engine_->is_prepared(one.params));
  const Output again = run(request(regex_of("[a-f]{4}")))[0];
  EXPECT_TRUE(again.last.constraint->cached);
  EXPECT_EQ(again.last.constraint->num_masks, std::ssize(again.token_ids));
  GenerateRequest any = one;
  any.params.structured_outputs = nullptr;
  EXPECT_FALSE(run(any)[0].last.constraint.has_value());
}

// A request is planned when its last token is known, however many steps are in flight.
TEST_F(StructuredOutputs, SameTokensHoweverManyStepsAreInFlight) {
  std::vector<std::vector<Output>> runs;
  for (const std::int32_t in_flight : {1, 3}) {
    EngineArgs args;
    args.max_steps_in_flight = in_flight;
    start(args);
    GenerateRequest many = request(regex_of("([a-z]{2,6} ){4}[0-9]+\\."), 40);
    many.params.n = 6;
    many.params.temperature = 1;
    many.params.seed = 3;
    runs.push_back(run(many));
  }
  EXPECT_EQ(runs[0], runs[1]);
}

// Forced tokens are computed together, and are those that come one by one.
TEST_F(StructuredOutputs, JumpForwardChangesNoTokenAndTakesFewerSteps) {
  std::vector<std::vector<Output>> runs;
  std::vector<std::int64_t> steps;
  for (const bool jump_forward : {false, true}) {
    EngineArgs args;
    args.jump_forward = jump_forward;
    start(args);
    GenerateRequest many =
        request(regex_of("The (dog|fox|cat), said the quick dog on the sea: [a-z]{2}"), 60);
    many.params.n = 4;
    many.params.temperature = 1;
    many.params.seed = 5;
    many.params.logprobs = 2;
    runs.push_back(run(many));
    steps.push_back(engine_->observe().num_steps);
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_TRUE(std::regex_match(runs[1][0].text, std::regex("The (dog|fox|cat), said .* [a-z]{2}")));
  EXPECT_LT(steps[1], steps[0] / 2);
  // The tokenizer's own spelling.
  const std::string& text = runs[1][0].text;
  const auto ids = engine_->tokenizer().encode(text, {.add_special_tokens = false});
  ASSERT_TRUE(ids.ok());
  EXPECT_LE(runs[1][0].token_ids.size(), ids->size() + 8);
}

}  // namespace
}  // namespace quire::test
