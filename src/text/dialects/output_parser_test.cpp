// Every dialect: calls come out as they went in, and in whatever pieces a text comes, the same
// comes out.
#include "text/dialects/output_parser.h"

#include <algorithm>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "text/dialects/dialect_samples.h"
#include "text/dialects/plain_reasoning.h"

namespace quire {
namespace {

const auto kTools = std::make_shared<const ToolSet>(sample_tools());
constexpr ReasoningDialect kThink{.name = "test", .begin = "<think>", .end = "</think>"};

OutputDialect dialect_of(const ToolDialect& tools) {
  if (tools.channels) return {&tools, *find_reasoning_dialect("openai_gptoss")};
  return {&tools, &kThink};
}

ParsedAnswer parse(const OutputDialect& dialect, std::string_view text,
                   ReasoningStart start = ReasoningStart::kUnsaid) {
  return parse_pieces(dialect, kTools, start, text, {});
}

std::string thought(const ToolDialect& tools, const std::string& text) {
  if (tools.channels) return "<|channel|>analysis<|message|>" + text + "<|end|><|start|>assistant";
  return "<think>\n" + text + "\n</think>\n\n";
}

std::string said(const ToolDialect& tools, const std::string& text) {
  if (tools.channels) return "<|channel|>final<|message|>" + text + "<|end|><|start|>assistant";
  return text;
}

// The corpus: at least 40 answers of a dialect, half of them awkward.
std::vector<std::string> answers_of(const ToolDialect& tools) {
  std::vector<std::string> answers;
  const auto arguments = sample_arguments();
  for (const json::object& each : arguments) {
    answers.push_back(write_calls(tools.name, {{"get", each}}));
  }
  for (std::size_t i = 0; i + 1 < arguments.size(); i += 2) {
    const std::vector<SampleCall> two = {{"get", arguments[i]}, {"set", arguments[i + 1]}};
    answers.push_back(write_calls(tools.name, two));
    answers.push_back(said(tools, "Let me look.\n\n") + write_calls(tools.name, two));
  }
  const std::string call = write_calls(tools.name, {{"get", {{"city", "Paris"}}}});
  answers.push_back(thought(tools, "I need \"Paris\".\n\nYes <b>") + call);
  answers.push_back(thought(tools, "") + call);
  answers.push_back(thought(tools, "first " + (tools.channels ? "" : call) + " then") + "done");
  answers.push_back(call + "\n\nThat was it. <tool");
  answers.push_back(call + call);
  answers.push_back(call + "\nand\n" + call);
  answers.push_back("Just text, nothing else: [1, 2], {\"a\": 1}, <b>, f(x).");
  answers.push_back("{\"name\": \"Bob\", \"age\": 5} is a person");
  answers.push_back("[get](http://example.com) and [x(1)] ");
  answers.push_back("<think>never ends " + call.substr(0, call.size() / 2));
  // Malformed.
  std::string broken = call;
  for (char& c : broken) {
    if (c == ':' || c == '=') c = ';';
  }
  answers.push_back(broken);
  answers.push_back(call.substr(1));
  answers.push_back(call.substr(0, call.size() / 2) + " oops " + call);
  answers.push_back(call.substr(0, call.size() - 3) + "\" oops");
  for (const std::string_view mark : tools.begin) {
    if (mark.empty()) continue;
    answers.push_back(std::string(mark));
    answers.push_back("Use " + std::string(mark) + " for calls, and " + std::string(mark) + call);
    answers.push_back(std::string(mark) + "{\"name\": 5}");
  }
  std::string unquoted = call;
  std::erase(unquoted, '"');
  answers.push_back(unquoted);
  std::string doubled;
  for (const char c : call) doubled.append(c == '{' || c == '<' ? 2 : 1, c);
  answers.push_back(doubled);
  answers.push_back(call + "\xF0\x9F\x98");  // half a character
  return answers;
}

class EveryDialect : public testing::TestWithParam<std::string_view> {
 protected:
  const ToolDialect& tools() const { return **find_tool_dialect(GetParam()); }
};

TEST_P(EveryDialect, CallsComeOutAsTheyWentIn) {
  for (const json::object& arguments : sample_arguments()) {
    const std::string text = write_calls(tools().name, {{"get", arguments}});
    SCOPED_TRACE(text);
    const ParsedAnswer answer = parse(dialect_of(tools()), text);
    ASSERT_EQ(answer.calls.size(), 1U);
    EXPECT_EQ(answer.calls[0].name, "get");
    EXPECT_TRUE(answer.calls[0].ended);
    const auto parsed = parse_json(answer.calls[0].arguments, "arguments");
    ASSERT_TRUE(parsed.ok()) << answer.calls[0].arguments;
    EXPECT_EQ(*parsed, json::value(arguments)) << answer.calls[0].arguments;
    EXPECT_EQ(answer.content, "");
    EXPECT_EQ(answer.reasoning, "");
  }
}

TEST_P(EveryDialect, TwoCallsAreTwo) {
  const std::vector<SampleCall> two = {{"get", {{"city", "Paris"}}}, {"set", {{"n", 3}}}};
  const std::string text = said(tools(), "Well. ") + write_calls(tools().name, two);
  const ParsedAnswer answer = parse(dialect_of(tools()), text);
  if (tools().bare && tools().begin[0].empty()) {  // such a call begins the answer or is none
    EXPECT_EQ(answer.content, text);
    return;
  }
  if (tools().bare && tools().name == "llama3_json") return;
  ASSERT_EQ(answer.calls.size(), 2U) << text;
  EXPECT_EQ(answer.calls[0].name, "get");
  EXPECT_EQ(answer.calls[1].name, "set");
  EXPECT_NE(answer.calls[0].id, answer.calls[1].id);
  EXPECT_EQ(parse_json(answer.calls[1].arguments, "").value().at("n").as_int64(), 3);
  EXPECT_EQ(answer.content, tools().channels ? "Well. " : "Well.");
}

TEST_P(EveryDialect, ACallWithinReasoningIsNotLost) {
  if (tools().channels || tools().bare) return;
  const std::string call = write_calls(tools().name, {{"get", {{"city", "Paris"}}}});
  const ParsedAnswer answer =
      parse(dialect_of(tools()), "I need that.\n" + call + "\nNow wait.</think>Done.",
            ReasoningStart::kOpen);
  ASSERT_EQ(answer.calls.size(), 1U);
  EXPECT_EQ(answer.calls[0].name, "get");
  EXPECT_EQ(answer.reasoning, "I need that.Now wait.");
  EXPECT_EQ(answer.content, "Done.");
}

TEST_P(EveryDialect, WhatIsNoCallIsTextAndNothingIsLost) {
  for (const std::string_view begin : tools().begin) {
    if (begin.empty()) continue;
    for (const std::string& text :
         {std::string(begin), std::string(begin) + " is how calls begin",
          "See " + std::string(begin) + "!\n\nAnd " + std::string(begin) + "{\"name\": 5} .",
          std::string(begin) + "[", std::string(begin) + std::string(begin) + "\n]"}) {
      EXPECT_EQ(parse(dialect_of(tools()), text).content, text);
    }
  }
  for (const std::string_view text :
       {"", " ", "plain", "  indented\n", "{\"name\": \"Bob\", \"age\": 5}", "[1, 2]", "[get",
        "{\"name\": \"nobody\", \"arguments\": {}}", "[nobody(a=1)]", "<", "<|", "a <think> b"}) {
    EXPECT_EQ(parse(dialect_of(tools()), text).content, text);
  }
}

TEST_P(EveryDialect, TheSameComesOutForEverySplit) {
  std::mt19937 random(5);
  const auto answers = answers_of(tools());
  ASSERT_GE(answers.size(), 40U);
  for (const std::string& text : answers) {
    SCOPED_TRACE(text);
    const OutputDialect dialect = dialect_of(tools());
    for (const auto start : {ReasoningStart::kUnsaid, ReasoningStart::kOpen}) {
      const ParsedAnswer whole = parse(dialect, text, start);
      std::vector<std::size_t> bytes;
      for (std::size_t i = 1; i < text.size(); ++i) {
        bytes.push_back(i);
        ASSERT_EQ(parse_pieces(dialect, kTools, start, text, {i}), whole) << "cut at " << i;
      }
      ASSERT_EQ(parse_pieces(dialect, kTools, start, text, bytes), whole) << "byte by byte";
      for (int round = 0; round < 4; ++round) {
        std::vector<std::size_t> cuts;
        for (const std::size_t at : bytes) {
          if (random() % 7 == 0) cuts.push_back(at);
        }
        ASSERT_EQ(parse_pieces(dialect, kTools, start, text, cuts), whole);
      }
    }
  }
}

// What has been handed out stays: an answer that ends early has a prefix of what the whole has.
TEST_P(EveryDialect, ATextThatIsCutGivesAPrefix) {
  for (const json::object& arguments : sample_arguments()) {
    const std::string text = write_calls(tools().name, {{"get", arguments}});
    const OutputDialect dialect = dialect_of(tools());
    const std::string whole = parse(dialect, text).calls.at(0).arguments;
    for (std::size_t size = 0; size < text.size(); ++size) {
      const ParsedAnswer cut = parse(dialect, text.substr(0, size));
      if (cut.calls.empty()) continue;
      ASSERT_EQ(cut.calls[0].name, "get");
      EXPECT_EQ(cut.content, "") << text.substr(0, size);
      // The last value of a cut text may be one that goes on otherwise ("1" of "1e5").
      std::vector<OutputEvent> events;
      OutputParser parser(dialect, kTools, ReasoningStart::kUnsaid, 7);
      parser.feed(std::string_view(text).substr(0, size), events);
      std::string so_far;
      for (const OutputEvent& event : events) {
        if (event.kind == OutputEvent::Kind::kArguments) so_far += event.text;
      }
      ASSERT_TRUE(whole.starts_with(so_far)) << so_far << " of " << whole;
    }
  }
}

std::vector<std::string_view> dialect_names() {
  std::vector<std::string_view> names;
  for (const ToolDialect& dialect : tool_dialects()) names.push_back(dialect.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Dialects, EveryDialect, testing::ValuesIn(dialect_names()),
                         [](const auto& tested) {
                           std::string name(tested.param);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(Dialects, EachHasSamplesAndMarksThatAreNoBeginningOfOneAnother) {
  for (const ToolDialect& dialect : tool_dialects()) {
    EXPECT_FALSE(write_calls(dialect.name, {{"get", {}}}).empty()) << dialect.name;
    for (const std::string_view one : dialect.begin) {
      for (const std::string_view other : dialect.begin) {
        if (one.empty() || other.empty() || one == other) continue;
        EXPECT_FALSE(one.starts_with(other)) << dialect.name;
      }
    }
  }
}

TEST(Dialects, AreFoundByVllmsNames) {
  for (const std::string_view name :
       {"hermes",         "llama3_json",    "llama4_json",     "llama4_pythonic",
        "pythonic",       "mistral",        "deepseek_v3",     "deepseek_v31",
        "qwen3_coder",    "qwen3_xml",      "glm45",           "glm47",
        "kimi_k2",        "openai",         "granite",         "granite4",
        "granite-20b-fc", "phi4_mini_json", "cohere_command3", "gemma4",
        "functiongemma",  "minimax_m2",     "minimax",         "internlm",
        "jamba",          "hunyuan_a13b",   "seed_oss",        "olmo3",
        "longcat",        "lfm2",           "ernie45",         "mimo"}) {
    EXPECT_TRUE(find_tool_dialect(name).ok()) << name;
  }
  for (const std::string_view name :
       {"deepseek_r1", "deepseek_v3", "qwen3", "granite", "mistral", "openai_gptoss", "glm45",
        "kimi_k2", "minimax_m2", "seed_oss", "hunyuan_a13b", "ernie45", "step3", "olmo3", "gemma4",
        "cohere_command3"}) {
    EXPECT_TRUE(find_reasoning_dialect(name).ok()) << name;
  }
  EXPECT_EQ(*find_tool_dialect("none"), nullptr);
  EXPECT_EQ(find_tool_dialect("hermess").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(find_reasoning_dialect("").status().code(), StatusCode::kInvalidArgument);
}

TEST(ReasoningDialects, CutTheirReasoningOff) {
  for (const ReasoningDialect& reasoning : reasoning_dialects()) {
    SCOPED_TRACE(reasoning.name);
    const OutputDialect dialect{nullptr, &reasoning};
    const std::string text =
        reasoning.channels
            ? "<|channel|>analysis<|message|>a\nb<|end|><|start|>assistant<|channel|>final"
              "<|message|>c <d>"
            : fmt::format("{}\na\nb\n{}\n\nc <d>", reasoning.begin, reasoning.end);
    const ParsedAnswer whole = parse_pieces(dialect, nullptr, ReasoningStart::kUnsaid, text, {});
    EXPECT_EQ(whole.reasoning, "a\nb");
    EXPECT_EQ(whole.content, "c <d>");
    for (std::size_t i = 1; i < text.size(); ++i) {
      ASSERT_EQ(parse_pieces(dialect, nullptr, ReasoningStart::kUnsaid, text, {i}), whole);
    }
  }
}

TEST(ReasoningDialects, FollowThePrompt) {
  const ReasoningDialect& qwen = **find_reasoning_dialect("qwen3");
  const ReasoningDialect& r1 = **find_reasoning_dialect("deepseek_r1");
  EXPECT_EQ(reasoning_start(qwen, "assistant\n<think>\n"), ReasoningStart::kOpen);
  EXPECT_EQ(reasoning_start(qwen, "<think>\n\n</think>\n\n"), ReasoningStart::kClosed);
  EXPECT_EQ(reasoning_start(qwen, "assistant\n"), ReasoningStart::kUnsaid);
  const auto content = [](const ReasoningDialect& dialect, ReasoningStart start) {
    return parse_pieces({nullptr, &dialect}, nullptr, start, "a</think>b", {}).content;
  };
  EXPECT_EQ(content(qwen, ReasoningStart::kUnsaid), "a</think>b");
  EXPECT_EQ(content(qwen, ReasoningStart::kOpen), "b");
  EXPECT_EQ(content(r1, ReasoningStart::kUnsaid), "b");
  EXPECT_EQ(content(r1, ReasoningStart::kClosed), "a</think>b");
}

TEST(OutputParser, MistralReadsItsThreeForms) {
  const OutputDialect mistral{*find_tool_dialect("mistral"), nullptr};
  for (const std::string_view text :
       {R"([TOOL_CALLS][{"name": "get", "arguments": {"city": "Paris"}, "id": "abcdefghi"}])",
        R"([TOOL_CALLS]get{"city": "Paris"})", R"([TOOL_CALLS]get[ARGS]{"city": "Paris"})",
        R"([TOOL_CALLS]get[CALL_ID]abcdefghi[ARGS]{"city": "Paris"})",
        R"([TOOL_CALLS] [{"arguments": {"city": "Paris"}, "name": "get"}])"}) {
    const ParsedAnswer answer = parse(mistral, text);
    ASSERT_EQ(answer.calls.size(), 1U) << text;
    EXPECT_EQ(answer.calls[0].name, "get");
    EXPECT_EQ(answer.calls[0].id.size(), 9U);
    EXPECT_EQ(answer.calls[0].arguments, R"({"city": "Paris"})");
    EXPECT_EQ(answer.content, "");
  }
}

TEST(OutputParser, KimiKeepsItsIds) {
  const OutputDialect kimi{*find_tool_dialect("kimi_k2"), nullptr};
  const ParsedAnswer answer = parse(kimi, write_calls("kimi_k2", {{"get", {}}, {"set", {}}}));
  ASSERT_EQ(answer.calls.size(), 2U);
  EXPECT_EQ(answer.calls[1].id, "functions.set:1");
  EXPECT_EQ(answer.calls[1].name, "set");
}

TEST(OutputParser, ArgumentsThatAreNoJsonStayAsWritten) {
  const OutputDialect hermes{*find_tool_dialect("hermes"), nullptr};
  const ParsedAnswer answer =
      parse(hermes, "<tool_call>{\"name\": \"get\", \"arguments\": {\"a\": oops}}</tool_call> ok");
  ASSERT_EQ(answer.calls.size(), 1U);
  EXPECT_EQ(answer.calls[0].arguments, "{\"a\": oops}}");
  EXPECT_EQ(answer.content, "ok");
}

TEST(OutputParser, ArgumentsInAStringAreItsContent) {
  const OutputDialect hermes{*find_tool_dialect("hermes"), nullptr};
  const ParsedAnswer answer =
      parse(hermes,
            R"(<tool_call>{"name": "get", "arguments": "{\"city\": \"Par\u00eds\"}"}</tool_call>)");
  ASSERT_EQ(answer.calls.size(), 1U);
  EXPECT_EQ(answer.calls[0].arguments, "{\"city\": \"Par\xC3\xADs\"}");
}

TEST(OutputParser, ArgumentsStreamAsTheyCome) {
  const OutputDialect hermes{*find_tool_dialect("hermes"), nullptr};
  OutputParser parser(hermes, kTools, ReasoningStart::kUnsaid, 1);
  std::vector<OutputEvent> events;
  parser.feed(R"(<tool_call>{"name": "get", "arguments": {"city": "Par)", events);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].kind, OutputEvent::Kind::kCall);
  EXPECT_EQ(events[1].text, R"({"city": "Par)");
  events.clear();
  parser.feed("is", events);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].text, "is");
}

// A value of unknown type is JSON where it reads as JSON.
TEST(OutputParser, TagsTakeTheTypesOfTheSchema) {
  const OutputDialect coder{*find_tool_dialect("qwen3_coder"), nullptr};
  const auto value = [&](std::string_view key, std::string_view text) {
    const ParsedAnswer answer =
        parse(coder, fmt::format("<tool_call>\n<function=get>\n<parameter={}>\n{}\n</parameter>\n"
                                 "</function>\n</tool_call>",
                                 key, text));
    return answer.calls.empty() ? std::string() : answer.calls[0].arguments;
  };
  EXPECT_EQ(value("digits", "5"), R"({"digits": "5"})");
  EXPECT_EQ(value("n", "5"), R"({"n": 5})");
  EXPECT_EQ(value("n", "five"), R"({"n": "five"})");
  EXPECT_EQ(value("b", "True"), R"({"b": true})");
  EXPECT_EQ(value("z", "null"), R"({"z": null})");
  EXPECT_EQ(value("z", "nothing"), R"({"z": "nothing"})");
  EXPECT_EQ(value("unknown", "[1]"), R"({"unknown": [1]})");
  EXPECT_EQ(value("unknown", "a\nb"), R"({"unknown": "a\nb"})");
}

// Content that is held to a schema may have harmony's marks in its strings.
TEST(OutputParser, HarmonysContentOfASchemaIsTheRestOfTheText) {
  const ReasoningDialect& harmony = **find_reasoning_dialect("openai_gptoss");
  const std::string text =
      "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>"
      R"({"a": "<|end|> <|call|><|start|>assistant<|channel|>analysis<|message|>b"})";
  const std::string content = text.substr(text.find('{'));
  const ParsedAnswer whole =
      parse_pieces({nullptr, kept_content(harmony)}, nullptr, ReasoningStart::kUnsaid, text, {});
  EXPECT_EQ(whole.reasoning, "a");
  EXPECT_EQ(whole.content, content);
  for (std::size_t i = 1; i < text.size(); ++i) {
    ASSERT_EQ(
        parse_pieces({nullptr, kept_content(harmony)}, nullptr, ReasoningStart::kUnsaid, text, {i}),
        whole);
  }
  EXPECT_NE(parse_pieces({nullptr, &harmony}, nullptr, ReasoningStart::kUnsaid, text, {}).content,
            content);
}

TEST(OutputParser, WithoutToolsCallsAreText) {
  const OutputDialect hermes{*find_tool_dialect("hermes"), nullptr};
  const std::string text = write_calls("hermes", {{"get", {}}});
  EXPECT_EQ(parse_pieces(hermes, nullptr, ReasoningStart::kUnsaid, text, {}).content, text);
}

}  // namespace
}  // namespace quire
