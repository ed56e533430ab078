// Grammars as people write them, read and then asked for texts by definition.
#include "text/grammar/grammar_text.h"

#include <gtest/gtest.h>

#include "text/grammar/grammar_test_support.h"

namespace quire {
namespace {

using Reader = Result<Grammar> (*)(std::string_view, GrammarBudget&);

void expect_texts(Reader read, std::string_view text, const std::vector<std::string>& in,
                  const std::vector<std::string>& out) {
  GrammarBudget budget;
  const Result<Grammar> grammar = read(text, budget);
  ASSERT_TRUE(grammar.ok()) << text << "\n" << grammar.status().to_string();
  for (const std::string& wanted : in) {
    EXPECT_TRUE(reference_matches(*grammar, wanted)) << text << "\nshould have " << wanted;
  }
  for (const std::string& unwanted : out) {
    EXPECT_FALSE(reference_matches(*grammar, unwanted)) << text << "\nshould not have " << unwanted;
  }
}

void expect_error(Reader read, std::string_view text, StatusCode code, std::string_view message) {
  GrammarBudget budget;
  const Status status = read(text, budget).status();
  EXPECT_EQ(status.code(), code) << text << "\n" << status.to_string();
  EXPECT_EQ(status.message(), message) << text;
}

TEST(Ebnf, ReadsWhatXGrammarAndLlamaCppWrite) {
  expect_texts(ebnf_grammar, "root ::= \"a\" | 'b'", {"a", "b"}, {"", "ab"});
  expect_texts(ebnf_grammar, R"g(
# sums of digits
root  ::= sum "\n"        # the end
sum   ::= term
        | sum [+-] term   /* on the left */
term  ::= [0-9]+ | "(" ws sum ws ")"
ws    ::= [ \t]*
)g",
               {"1\n", "1+22-(3+4)\n", "( 1 )\n"}, {"1", "+\n", "(1\n", "1+\n"});
  expect_texts(ebnf_grammar, R"g(root ::= x{2} y{1,} z{0,2} ("p" "q")? . [^a-c\]\x41\u00e9]
x ::= "x"
y ::= "y"
z ::= "z")g",
               {"xxyzzpqoo", "xxyyy\xC3\xA9z"},
               {"xxy", "xyoo", "xxyzzzoo", "xxyoa", "xxyo]", "xxyoA"});
  expect_texts(ebnf_grammar, "root ::= ([a-z]+ - \"if\") \" \" [#x41-#x43]", {"ifx A", "i B"},
               {"if A", "x D"});
  expect_texts(ebnf_grammar, "root ::= \"a\" root | \"\"", {"", "aaa"}, {"b"});
  // A rule ends where the next one begins, and not with the line.
  expect_texts(ebnf_grammar, "root ::= a\n  b\na ::= \"1\"\nb ::= \"2\"", {"12"}, {"1"});
  expect_texts(ebnf_grammar, R"g(root ::= "\"\\\n\x41\u00e9\U0001F600")g",
               {"\"\\\nA\u00E9\U0001F600"}, {});
}

TEST(Ebnf, ErrorsSayWhereAndWhat) {
  constexpr auto kWrong = StatusCode::kInvalidArgument;
  constexpr auto kNotThere = StatusCode::kUnimplemented;
  expect_error(ebnf_grammar, "root ::= \"a\" foo\nbar ::= \"b\"", kWrong,
               "the EBNF grammar, line 1, column 14: there is no rule \"foo\"");
  expect_error(ebnf_grammar, "a ::= \"a\"", kWrong,
               "the EBNF grammar, line 1, column 10: there is no rule \"root\", where a text would "
               "begin");
  expect_error(ebnf_grammar, "root ::= (\"a\"\n  \"b\"", kWrong,
               "the EBNF grammar, line 2, column 6: found the end, expected \")\" for the group "
               "that is open");
  expect_error(ebnf_grammar, "root ::= \"a", kWrong,
               "the EBNF grammar, line 1, column 10: a text whose closing quote is missing");
  expect_error(ebnf_grammar, "root := \"a\"", kWrong,
               "the EBNF grammar, line 1, column 6: found \":\", expected \"::=\"");
  expect_error(ebnf_grammar, "root ::= \"a\"\nroot ::= \"b\"", kWrong,
               "the EBNF grammar, line 2, column 1: the rule \"root\" is defined a second time");
  expect_error(ebnf_grammar, "root ::= \"\u00E9\" [b-a]", kWrong,
               "the EBNF grammar, line 1, column 15: a range whose ends are not in order");
  expect_error(ebnf_grammar, "root ::= \"a\"{3,1}", kWrong,
               "the EBNF grammar, line 1, column 13: a repetition whose numbers are not in order");
  expect_error(ebnf_grammar, "root ::= \"a\" (=\"b\")", kNotThere,
               "the EBNF grammar, line 1, column 14: look-ahead is not supported");
  expect_error(ebnf_grammar, "root ::= TagDispatch((\"a\", b))", kNotThere,
               "the EBNF grammar, line 1, column 10: the macro TagDispatch is not supported");
  expect_error(ebnf_grammar, "root ::= \"a\" | | )", kWrong,
               "the EBNF grammar, line 1, column 18: found \")\", expected a text, a class, a "
               "rule's name, \"(\" or \"|\"");
}

TEST(Lark, ReadsRulesAndTerminals) {
  expect_texts(lark_grammar, "start: \"a\" | \"b\"", {"a", "b"}, {"", "ab"});
  expect_texts(lark_grammar, R"g(
// arithmetic
?start: sum
?sum: product
    | sum "+" product   -> add
    | sum "-" product   -> sub
?product: atom
    | product "*" atom  -> mul
?atom: NUMBER           -> number
     | "-" atom         -> neg
     | "(" sum ")"

%import common.NUMBER
%import common.WS_INLINE
%ignore WS_INLINE
)g",
               {"1+2*(3-4)", " 1 + 2.5e3 * -( 3 - 4 ) ", "7"}, {"", "1+", "(1", "1 2", "1\n"});
  expect_texts(lark_grammar, R"g(
start: NAME [":" TYPE] ("," NAME)~1..2
NAME: /[a-z]+/i
TYPE.2: "int"i | "a".."c" DIGITS~2
DIGITS: "0".."9"
%ignore /[ \t]+/
)g",
               {"x:INT,y", "Foo , bar, baz", "x : b12,y"}, {"x", "x,y,z,w", "x:d12,y", "x:b 12,y"});
  expect_texts(lark_grammar, "start: /a\\/b/ \"\\n\" <think>", {}, {"a/b\n"});
  expect_texts(lark_grammar, "start: (a\n  | b)+\na: \"x\"\n?b: \"y\"\n!c: \"z\"", {"xyyx"},
               {"", "z"});
  expect_texts(lark_grammar,
               "start: S\n%import common (ESCAPED_STRING, INT)\nS: ESCAPED_STRING INT",
               {R"g("a\"b"12)g"}, {R"g("a"b"12)g", "\"\""});
  expect_texts(lark_grammar, "start: N\n%import common.INT -> N", {"12"}, {"x"});
}

TEST(Lark, ErrorsSayWhereAndWhat) {
  constexpr auto kWrong = StatusCode::kInvalidArgument;
  constexpr auto kNotThere = StatusCode::kUnimplemented;
  expect_error(lark_grammar, "start: a\nb: \"x\"", kWrong,
               "the Lark grammar, line 1, column 8: there is no rule \"a\"");
  expect_error(
      lark_grammar, "begin: \"x\"", kWrong,
      "the Lark grammar, line 1, column 11: there is no rule \"start\", where a text would "
      "begin");
  expect_error(
      lark_grammar, "start: /a(/", kWrong,
      "the Lark grammar, line 1, column 8: the regular expression, line 1, column 3: found "
      "the end, expected \")\" for the group that is open");
  expect_error(lark_grammar, "start: \"x\" )", kWrong,
               "the Lark grammar, line 1, column 12: found \")\", expected the end of the line");
  expect_error(lark_grammar, "_sep{x}: x\nstart: \"a\"", kNotThere,
               "the Lark grammar, line 1, column 1: a template is not supported");
  expect_error(lark_grammar, "start: sep{\"a\"}", kNotThere,
               "the Lark grammar, line 1, column 8: a template is not supported");
  expect_error(lark_grammar, "%import python.NAME\nstart: \"a\"", kNotThere,
               "the Lark grammar, line 1, column 9: an import from anything but common is not "
               "supported");
  expect_error(lark_grammar, "start: \"a\"\n%declare X", kNotThere,
               "the Lark grammar, line 2, column 1: %declare is not supported");
  expect_error(lark_grammar, "start: A\nA: b\nb: \"x\"", kWrong,
               "the Lark grammar, line 2, column 4: a terminal that refers to a rule");
  expect_error(lark_grammar, "start: \"a\"..\"bc\"", kWrong,
               "the Lark grammar, line 1, column 8: a range that is not one from a character to a "
               "later one");
}

TEST(GrammarText, WhatItIsIsSeenByItsDefinitions) {
  EXPECT_TRUE(is_ebnf("root ::= \"a\""));
  EXPECT_TRUE(is_ebnf("# a grammar\n\nroot ::= \"a\""));
  EXPECT_FALSE(is_ebnf("start: \"a\""));
  EXPECT_FALSE(is_ebnf("// not ::= this\nstart: \"a\""));
  expect_texts(grammar_from_text, "root ::= \"a\"", {"a"}, {});
  expect_texts(grammar_from_text, "start: \"a\"", {"a"}, {});
}

TEST(GrammarText, ChoicesAreTextAsItIs) {
  GrammarBudget budget;
  const std::vector<std::string> choices = {"a", "ab", "[x]*"};
  const Result<Grammar> grammar = choice_grammar(choices, budget);
  ASSERT_TRUE(grammar.ok());
  for (const std::string& choice : choices) EXPECT_TRUE(reference_matches(*grammar, choice));
  EXPECT_FALSE(reference_matches(*grammar, "x"));
  EXPECT_EQ(choice_grammar({}, budget).status().code(), StatusCode::kInvalidArgument);
}

TEST(GrammarText, HostileOnesEndInANamedLimit) {
  const auto expect_limit = [](Reader read, const std::string& text) {
    GrammarBudget budget;
    const Status status = read(text, budget).status();
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted)
        << text.substr(0, 40) << status.to_string();
    EXPECT_NE(status.message().find("limit max_"), std::string::npos) << status.message();
  };
  std::string rules = "root ::= \"a\"\n";
  for (int i = 0; rules.size() < 1'000'000; ++i) rules += "r" + std::to_string(i) + "::=\"a\"\n";
  expect_limit(ebnf_grammar, "root ::= " + std::string(100'000, '('));
  expect_limit(ebnf_grammar, std::string(10'000'000, ' '));
  expect_limit(ebnf_grammar, rules);
  expect_limit(lark_grammar, "start: " + std::string(100'000, '['));
  expect_limit(lark_grammar, std::string(10'000'000, 'a'));
}

}  // namespace
}  // namespace quire
