// What answer grammars let through always parses, and its arguments validate.
#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "text/dialects/answer_form.h"
#include "text/dialects/dialect_samples.h"
#include "text/grammar/grammar_matcher.h"

namespace quire {
namespace {

using VocabularyOf = std::shared_ptr<const GrammarVocabulary>;

// All bytes and some pieces of text; the special tokens are what `special` names.
VocabularyOf vocabulary_with(const std::vector<std::string>& special) {
  std::vector<GrammarVocabulary::Token> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back({.bytes = std::string(1, static_cast<char>(byte)), .name = ""});
  }
  for (const char* piece :
       {"{\"", "\":", "\",\"", "\"}", "true", "None", "hello", " world", "</", "<", "call", "tool",
        "</think>", "<think>", "<tool_call>", "</tool_call>", "12", "\u00E9t\u00E9", "\n\n"}) {
    tokens.push_back({.bytes = piece, .name = piece});
  }
  for (const std::string& name : special) tokens.push_back({.bytes = "", .name = name});
  tokens.push_back({.bytes = "", .name = "<end>", .is_end = true});
  return GrammarVocabulary::create(tokens);
}

// Marks of the dialects that are special tokens in the models that they are of.
const VocabularyOf& special_vocabulary() {
  static const VocabularyOf kMade = vocabulary_with({"[TOOL_CALLS]",
                                                     "[ARGS]",
                                                     "[THINK]",
                                                     "[/THINK]",
                                                     "<|channel|>",
                                                     "<|message|>",
                                                     "<|start|>",
                                                     "<|constrain|>",
                                                     "<|call|>",
                                                     "<|tool_call|>",
                                                     "<|python_tag|>",
                                                     "<|START_ACTION|>",
                                                     "<|END_ACTION|>",
                                                     "<|tool_call>",
                                                     "<tool_call|>",
                                                     "<|\"|>",
                                                     "<｜tool▁calls▁begin｜>",
                                                     "<｜tool▁calls▁end｜>",
                                                     "<｜tool▁call▁begin｜>",
                                                     "<｜tool▁call▁end｜>",
                                                     "<｜tool▁sep｜>"});
  return kMade;
}
const VocabularyOf& plain_vocabulary() {
  static const VocabularyOf kMade = vocabulary_with({});
  return kMade;
}

AnswerForm form_of(std::string_view tools, std::string_view reasoning = "none") {
  AnswerForm form;
  form.reasoning = *find_reasoning_dialect(reasoning);
  form.calls.emplace();
  form.calls->dialect = *find_tool_dialect(tools);
  for (const json::value& tool : sample_tools()) {
    const json::object& function = tool.at("function").as_object();
    form.calls->functions.push_back({.name = std::string(function.at("name").as_string()),
                                     .parameters = function.at("parameters"),
                                     .strict = true});
  }
  form.calls->required = true;
  return form;
}

std::shared_ptr<const CompiledGrammar> compiled(const AnswerForm& form,
                                                const VocabularyOf& vocabulary,
                                                const Grammar* content = nullptr) {
  GrammarLimits limits;
  limits.max_compile_time = std::chrono::seconds(30);  // whatever the machine does besides
  GrammarBudget budget(limits);
  const auto grammar = answer_grammar(form, content, *vocabulary, budget);
  EXPECT_TRUE(grammar.ok()) << grammar.status().to_string();
  if (!grammar.ok()) return nullptr;
  auto made = compile_grammar(*grammar, vocabulary, limits);
  EXPECT_TRUE(made.ok()) << made.status().to_string();
  return made.ok() ? *made : nullptr;
}

// Takes `text`, with each special token that it spells as that token.
bool takes(const std::shared_ptr<const CompiledGrammar>& grammar, std::string_view text) {
  if (grammar == nullptr) return false;
  GrammarMatcher matcher(grammar);
  const GrammarVocabulary& vocabulary = grammar->vocabulary();
  for (std::size_t at = 0; at < text.size();) {
    std::size_t size = std::min<std::size_t>(64, text.size() - at);
    const auto special = [&](std::string_view part) {
      const auto id = vocabulary.find(part);
      return id && vocabulary.bytes(*id).empty() ? id : std::nullopt;
    };
    while (size > 1 && !special(text.substr(at, size))) --size;
    const auto token = size > 1 ? special(text.substr(at, size)) : std::nullopt;
    const bool accepted = token ? matcher.accept(*token) : matcher.accept_text(text.substr(at, 1));
    if (!accepted) return false;
    at += token ? size : 1;
  }
  return matcher.can_end();
}

const ToolSet& sample_set() {
  static const ToolSet kSet(sample_tools());
  return kSet;
}

ParsedAnswer parse(const AnswerForm& form, std::string_view text) {
  return parse_pieces({form.calls ? form.calls->dialect : nullptr, form.reasoning},
                      std::make_shared<const ToolSet>(sample_tools()), form.start, text, {});
}

std::vector<std::string> all_dialects() {
  std::vector<std::string> names;
  for (const ToolDialect& dialect : tool_dialects()) names.emplace_back(dialect.name);
  return names;
}

class AnswerGrammarOf : public testing::TestWithParam<std::string> {};

// As the vendors' templates write calls.
TEST_P(AnswerGrammarOf, TakesWhatTemplatesWrite) {
  AnswerForm form = form_of(GetParam());
  const bool harmony = GetParam() == "openai";
  for (const VocabularyOf& vocabulary : {plain_vocabulary(), special_vocabulary()}) {
    form.calls->parallel = true;
    const auto grammar = compiled(form, vocabulary);
    form.calls->parallel = false;
    const auto single = compiled(form, vocabulary);
    const json::object one = {{"city", "Paris"}};
    const json::object two = {
        {"city", "Rome"}, {"q", "a b"}, {"n", -12}, {"b", true}, {"z", nullptr}};
    const std::string once = write_calls(GetParam(), {{"get", one}});
    EXPECT_TRUE(takes(grammar, once)) << once;
    EXPECT_TRUE(takes(single, once)) << once;
    EXPECT_TRUE(takes(grammar, write_calls(GetParam(), {{"set", {}}})));
    const std::string both = write_calls(GetParam(), {{"get", one}, {"set", two}});
    EXPECT_EQ(takes(grammar, both), !harmony) << both;
    EXPECT_FALSE(takes(single, both)) << both;
    EXPECT_FALSE(takes(grammar, write_calls(GetParam(), {{"other", one}})));
    EXPECT_FALSE(takes(grammar, write_calls(GetParam(), {{"get", {{"unknown", "x"}}}})));
    EXPECT_FALSE(takes(grammar, "Paris"));
    EXPECT_FALSE(takes(grammar, ""));
  }
}

// A token that is allowed, at random; what was begun is then brought to its end.
struct Walk {
  std::string text;
  bool ended = false;
};

Walk walk(const std::shared_ptr<const CompiledGrammar>& grammar, unsigned seed) {
  std::mt19937 random(seed);
  GrammarMatcher matcher(grammar);
  const GrammarVocabulary& vocabulary = grammar->vocabulary();
  std::vector<std::uint32_t> words(vocabulary.mask_words());
  Walk walked;
  for (int step = 0; step < 1200; ++step) {
    if (matcher.can_end() && (step > 60 || random() % 8 == 0)) {
      walked.ended = true;
      break;
    }
    if (!matcher.fill_mask(words).ok()) break;
    std::vector<TokenId> tokens;
    for (TokenId id = 0; vocabulary.contains(id); ++id) {
      const auto index = static_cast<std::size_t>(id);
      if ((words[index / 32] >> (index % 32) & 1) != 0 && !vocabulary.is_end(id)) {
        tokens.push_back(id);
      }
    }
    if (tokens.empty()) break;
    TokenId token = tokens[random() % tokens.size()];
    // Strings go on for ever by chance: from some length on what closes things comes first.
    if (step > 60) {
      const auto closes = [&](TokenId id) {
        const std::string_view bytes = vocabulary.bytes(id);
        return bytes.empty() || std::string_view("\"}])<>/\n").find(bytes[0]) != std::string::npos;
      };
      std::vector<TokenId> closing;
      for (const TokenId id : tokens) {
        if (closes(id)) closing.push_back(id);
      }
      if (!closing.empty()) token = closing[random() % closing.size()];
    }
    if (!matcher.accept(token)) break;
    const std::string_view bytes = vocabulary.bytes(token);
    walked.text += bytes;
  }
  return walked;
}

TEST_P(AnswerGrammarOf, WhatItLetsThroughParses) {
  const AnswerForm form = form_of(GetParam());
  const auto grammar = compiled(form, plain_vocabulary());
  ASSERT_NE(grammar, nullptr);
  int ended = 0;
  for (unsigned seed = 0; seed < 12; ++seed) {
    const Walk walked = walk(grammar, seed);
    if (!walked.ended) continue;
    ++ended;
    const ParsedAnswer answer = parse(form, walked.text);
    ASSERT_FALSE(answer.calls.empty()) << walked.text;
    EXPECT_EQ(answer.content, "") << walked.text;
    for (const ParsedAnswer::Call& call : answer.calls) {
      EXPECT_TRUE(call.ended) << walked.text;
      EXPECT_TRUE(sample_set().has(call.name)) << walked.text;
      const auto arguments = parse_json(call.arguments, "arguments", 256);
      ASSERT_TRUE(arguments.ok()) << walked.text << "\n" << call.arguments;
      ASSERT_TRUE(arguments->is_object());
      for (const auto& item : arguments->as_object()) {
        const std::uint8_t types = sample_set().types(call.name, item.key());
        const bool fits = item.value().is_string()   ? (types & kStringType) != 0
                          : item.value().is_number() ? (types & kNumberType) != 0
                          : item.value().is_bool()   ? (types & kBooleanType) != 0
                          : item.value().is_null()   ? (types & kNullType) != 0
                          : item.value().is_array()  ? (types & kArrayType) != 0
                                                     : (types & kObjectType) != 0;
        EXPECT_TRUE(fits) << walked.text << "\n" << call.arguments;
      }
    }
  }
  EXPECT_GE(ended, 2);
}

INSTANTIATE_TEST_SUITE_P(Dialects, AnswerGrammarOf, testing::ValuesIn(all_dialects()),
                         [](const auto& of_one) {
                           std::string name = of_one.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

AnswerForm free_form(std::string_view tools, std::string_view reasoning = "none") {
  AnswerForm form = form_of(tools, reasoning);
  form.calls->required = false;
  return form;
}

TEST(AnswerGrammar, TextIsFreeUntilAMark) {
  const auto grammar = compiled(free_form("hermes"), plain_vocabulary());
  EXPECT_TRUE(takes(grammar, ""));
  EXPECT_TRUE(takes(grammar, "Paris < Rome, <tool_cal"));
  EXPECT_TRUE(takes(grammar, "Sure.\n" + write_calls("hermes", {{"get", {{"city", "Rome"}}}})));
  EXPECT_FALSE(takes(grammar, "a <tool_call> b"));
  EXPECT_FALSE(
      takes(grammar, "<tool_call>{\"name\": \"get\", \"arguments\": {\"n\": 1.5}}</tool_call>"));
  EXPECT_FALSE(takes(grammar, write_calls("hermes", {{"get", {}}}) + " and text"));
  // Where functions are not strict, any object is good.
  AnswerForm loose = free_form("hermes");
  for (AnswerForm::Function& function : loose.calls->functions) function.strict = false;
  EXPECT_TRUE(takes(compiled(loose, plain_vocabulary()),
                    "<tool_call>{\"name\": \"get\", \"arguments\": {\"n\": 1.5}}</tool_call>"));
}

TEST(AnswerGrammar, WithoutMarksACallIsWhatBeginsSo) {
  const auto grammar = compiled(free_form("llama3_json"), plain_vocabulary());
  EXPECT_TRUE(takes(grammar, "Set {1} is"));
  EXPECT_FALSE(takes(grammar, "{1} is a set"));
  EXPECT_TRUE(takes(grammar, write_calls("llama3_json", {{"get", {{"city", "Rome"}}}})));
}

TEST(AnswerGrammar, ReasoningComesFirst) {
  const std::string call = write_calls("hermes", {{"get", {{"city", "Rome"}}}});
  AnswerForm form = form_of("hermes", "qwen3");
  const auto unsaid = compiled(form, plain_vocabulary());
  EXPECT_TRUE(takes(unsaid, call));
  EXPECT_TRUE(takes(unsaid, "<think>\nhm, {\n</think>\n\n" + call));
  EXPECT_FALSE(takes(unsaid, "<think>" + call));
  EXPECT_FALSE(takes(unsaid, "<think>" + call + "</think>" + call)) << "a call within reasoning";
  form.start = ReasoningStart::kOpen;
  const auto open = compiled(form, plain_vocabulary());
  EXPECT_FALSE(takes(open, call));
  EXPECT_TRUE(takes(open, "hm</think>" + call));
  form.start = ReasoningStart::kClosed;
  EXPECT_FALSE(takes(compiled(form, plain_vocabulary()), "<think>hm</think>" + call));
}

TEST(AnswerGrammar, ContentOrCalls) {
  GrammarBudget budget;
  GrammarBuilder builder(budget);
  const RuleId root = builder.add_rule("root");
  builder.define(root, builder.literal("yes"));
  const auto content = builder.build(root);
  ASSERT_TRUE(content.ok());
  const auto grammar = compiled(free_form("mistral", "mistral"), special_vocabulary(), &*content);
  EXPECT_TRUE(takes(grammar, "yes"));
  EXPECT_TRUE(takes(grammar, "[THINK]hm[/THINK]yes"));
  EXPECT_TRUE(takes(grammar, write_calls("mistral", {{"set", {}}})));
  EXPECT_FALSE(takes(grammar, "no"));
}

TEST(AnswerGrammar, SpecialTokensAreNoText) {
  const auto grammar = compiled(form_of("granite"), special_vocabulary());
  GrammarMatcher matcher(grammar);
  EXPECT_FALSE(matcher.accept_text("<|tool_call|>"));
  EXPECT_TRUE(matcher.accept(*special_vocabulary()->find("<|tool_call|>")));
}

TEST(AnswerGrammar, AFormIsItsText) {
  AnswerForm form = form_of("kimi_k2", "kimi_k2");
  form.start = ReasoningStart::kOpen;
  form.thinking_budget = 7;
  form.content = {{"regex", "a"}};
  const auto read = AnswerForm::from_text(form.to_text());
  ASSERT_TRUE(read.ok() && *read) << read.status().to_string();
  EXPECT_EQ((*read)->to_text(), form.to_text());
  EXPECT_EQ((*read)->calls->dialect, form.calls->dialect);
  EXPECT_FALSE(*AnswerForm::from_text(R"({"type": "structural_tag", "format": {}})"));
}

}  // namespace
}  // namespace quire
