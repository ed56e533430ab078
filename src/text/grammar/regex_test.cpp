#include "text/grammar/regex.h"

#include <random>
#include <regex>

#include <gtest/gtest.h>

#include "text/grammar/grammar_test_support.h"

namespace quire {
namespace {

constexpr auto kPcre = RegexOptions::Dialect::kPcre;
constexpr auto kEcma = RegexOptions::Dialect::kEcma;

Result<Dfa> compile_regex(std::string_view pattern, const RegexOptions& options = {}) {
  GrammarBudget budget;
  return regex_to_dfa(pattern, options, budget);
}

bool matches_regex(std::string_view pattern, std::string_view text,
                   const RegexOptions& options = {}) {
  const Result<Dfa> dfa = compile_regex(pattern, options);
  EXPECT_TRUE(dfa.ok()) << pattern << ": " << dfa.status().to_string();
  return dfa.ok() && dfa->matches(text);
}

// Patterns over a and b that mean the same to std::regex.
class RandomPattern {
 public:
  explicit RandomPattern(unsigned seed) : engine_(seed) {}

  std::string alternatives(int depth) {
    std::string pattern = sequence(depth);
    for (unsigned i = random_() % 3; i > 1; --i) pattern += "|" + sequence(depth);
    return pattern;
  }

 private:
  std::string sequence(int depth) {
    std::string pattern;
    for (unsigned i = 1 + random_() % 3; i > 0; --i) {
      pattern += atom(depth);
      static constexpr const char* kQuantifiers[] = {"",    "",      "",   "*",     "+",   "?",
                                                     "{2}", "{1,2}", "*?", "{0,1}", "{2,}"};
      pattern += kQuantifiers[random_() % std::size(kQuantifiers)];
    }
    return pattern;
  }

  std::string atom(int depth) {
    static constexpr const char* kAtoms[] = {"a", "b", "[ab]", "[^a]", ".", "\\w", "ab"};
    const unsigned kind = random_() % 9;
    if (kind < 7 || depth == 0) return kAtoms[kind % 7];
    if (kind == 7) return "(" + alternatives(depth - 1) + ")";
    return "(?:" + alternatives(depth - 1) + ")";
  }

  unsigned random_() { return static_cast<unsigned>(engine_()); }

  std::mt19937 engine_;
};

TEST(Regex, AgreesWithTheStandardLibraryOnRandomPatterns) {
  const std::vector<std::string> texts = all_texts("ab", 6);
  for (unsigned seed = 0; seed < 300; ++seed) {
    RandomPattern random(seed);
    std::string pattern = random.alternatives(2);
    const bool begins = seed % 5 == 0;
    const bool ends = seed % 7 == 0;
    if (begins) pattern = "^(?:" + pattern + ")";
    if (ends) pattern = "(?:" + pattern + ")$";
    const std::regex reference(pattern, std::regex::ECMAScript);
    const Result<Dfa> whole = compile_regex(pattern, {.dialect = kEcma});
    const Result<Dfa> part = compile_regex(pattern, {.dialect = kEcma, .whole_text = false});
    ASSERT_TRUE(whole.ok() && part.ok()) << pattern << whole.status().to_string();
    for (const std::string& text : texts) {
      ASSERT_EQ(whole->matches(text), std::regex_match(text, reference)) << pattern << " " << text;
      ASSERT_EQ(part->matches(text), std::regex_search(text, reference)) << pattern << " " << text;
    }
  }
}

// Where anything may follow, the automaton goes on without what a match leaves of the pattern.
TEST(Regex, WhatIsFoundAnywhereHasAnyTextAround) {
  GrammarBudget budget;
  const auto expect_any_text_around = [&](const std::string& pattern) {
    const Result<Dfa> whole = compile_regex(pattern, {.dialect = kEcma});
    const Result<Dfa> part = compile_regex(pattern, {.dialect = kEcma, .whole_text = false});
    ASSERT_TRUE(whole.ok() && part.ok()) << pattern << whole.status().to_string();
    const std::vector<Dfa> parts = {Dfa::any_text(), *whole, Dfa::any_text()};
    EXPECT_EQ(*part, dfa_concat(parts, budget).value()) << pattern;
  };
  for (unsigned seed = 0; seed < 100; ++seed) {
    expect_any_text_around(RandomPattern(seed).alternatives(2));
  }
  for (const char* pattern :
       {"", "\\u20AC[\\u20A0-\\u20CF]*", "[^\\u00E4]\\u00E5|\\u00E4+b", "a*"}) {
    expect_any_text_around(pattern);
  }
}

TEST(Regex, LookAheadAgreesWithTheStandardLibrary) {
  const std::vector<std::string> texts = all_texts("abc", 6);
  for (const char* pattern :
       {"^(?!ab)[abc]+$", "^(?=.*b)(?=.*c)[abc]{2,5}$", "(?=ab)a", "^a(?!b).*", "^(?!.*cc$).*$",
        "a(?=b|cc)[bc]+$", "^(?!a$)(?!b$).+$", "(?!a)b|(?=c)c", "^(?!(?:a|b)c).*$", "(?!abc)",
        "^a(?:(?!.*cc)[abc]*b)?$",
        "^(?:(?=ab)a|(?!.*a)c|b)[abc]*$|^(?:(?!b)a|c)b*(?:(?=c)[abc])?$"}) {
    const std::regex reference(pattern, std::regex::ECMAScript);
    for (const bool whole : {false, true}) {
      const Result<Dfa> dfa = compile_regex(pattern, {.dialect = kEcma, .whole_text = whole});
      ASSERT_TRUE(dfa.ok()) << pattern << dfa.status().to_string();
      for (const std::string& text : texts) {
        const bool expected =
            whole ? std::regex_match(text, reference) : std::regex_search(text, reference);
        ASSERT_EQ(dfa->matches(text), expected) << pattern << " " << text << " " << whole;
      }
    }
  }
}

TEST(Regex, AnchorsCountWhereTheyStand) {
  const RegexOptions search{.dialect = kEcma, .whole_text = false};
  EXPECT_TRUE(matches_regex("^a|b$", "ax", search));
  EXPECT_TRUE(matches_regex("^a|b$", "xb", search));
  EXPECT_FALSE(matches_regex("^a|b$", "xax", search));
  EXPECT_TRUE(matches_regex("a^b", "ab", search) == false);
  EXPECT_TRUE(compile_regex("a^b", search)->is_empty());
  EXPECT_TRUE(matches_regex("(^)*^a", "ab", search));
  EXPECT_TRUE(matches_regex("^$", "", search));
  EXPECT_FALSE(matches_regex("^$", "a", search));
  EXPECT_TRUE(matches_regex("(?:^|,)x(?:,|$)", "a,x", search));
  EXPECT_FALSE(matches_regex("(?:^|,)x(?:,|$)", "ax", search));
  EXPECT_TRUE(matches_regex("^ab$", "ab"));  // of the whole text they say nothing new
  EXPECT_TRUE(matches_regex("\\Aab\\z", "ab"));
}

TEST(Regex, ClassesAndEscapes) {
  EXPECT_TRUE(matches_regex("[\\d\\-x]+", "1-x"));
  EXPECT_TRUE(matches_regex("[a\\]b]", "]"));
  EXPECT_TRUE(matches_regex("[]a]", "]"));
  EXPECT_TRUE(compile_regex("[]", {.dialect = kEcma})->is_empty());
  EXPECT_TRUE(matches_regex("[^]", "\n", {.dialect = kEcma}));
  EXPECT_TRUE(matches_regex("[-a]", "-"));
  EXPECT_TRUE(matches_regex("[a-]", "-"));
  EXPECT_TRUE(matches_regex("[\\w-.]", "-"));
  EXPECT_TRUE(matches_regex("\\u00e9\\x41\\u{1F600}\\t", "\u00E9A\U0001F600\t"));
  EXPECT_TRUE(matches_regex("\\ud83d\\ude00", "\U0001F600", {.dialect = kEcma}));
  EXPECT_TRUE(matches_regex("\\p{Lu}\\p{L}+\\P{L}", "\u00C9t\u00E9!"));
  EXPECT_FALSE(matches_regex("\\p{Lu}", "\u00E9"));
  EXPECT_TRUE(matches_regex("\\p{Uppercase_Letter}", "A"));
  EXPECT_TRUE(matches_regex("(?i)stra\u00DFe[k-m]", "STRA\u00DFEL"));
  EXPECT_TRUE(matches_regex("a(?i:b)c", "aBc"));
  EXPECT_FALSE(matches_regex("a(?i:b)c", "aBC"));
  EXPECT_FALSE(matches_regex("a.b", "a\nb"));
  EXPECT_TRUE(matches_regex("(?s)a.b", "a\nb"));
  EXPECT_TRUE(matches_regex("a.b", "a\rb", {.dialect = kPcre}));
  EXPECT_FALSE(matches_regex("a.b", "a\rb", {.dialect = kEcma}));
  EXPECT_TRUE(matches_regex("\\s", "\u00A0", {.dialect = kEcma}));
  EXPECT_FALSE(matches_regex("\\s", "\u00A0", {.dialect = kPcre}));
  EXPECT_TRUE(matches_regex("{a}{,b", "{a}{,b"));  // braces that count nothing
  EXPECT_TRUE(matches_regex("(?<year>\\d{4})-(?P<month>\\d\\d)", "2024-05"));
  EXPECT_TRUE(matches_regex("", ""));
  EXPECT_TRUE(matches_regex("a||b", ""));
}

TEST(Regex, ErrorsSayWhereAndWhat) {
  const auto message = [](std::string_view pattern) {
    return compile_regex(pattern).status().message();
  };
  EXPECT_EQ(message("a(b"),
            "the regular expression, line 1, column 4: found the end, expected \")\" for the group "
            "that is open");
  EXPECT_EQ(message("ab)"),
            "the regular expression, line 1, column 3: found \")\", expected the end, for no group "
            "is open");
  EXPECT_EQ(message("\u00E9*+x"),
            "the regular expression, line 1, column 2: a possessive quantifier is not supported");
  EXPECT_EQ(message("*a"),
            "the regular expression, line 1, column 1: found \"*\", expected something to repeat");
  EXPECT_EQ(message("[b-a]"),
            "the regular expression, line 1, column 2: a range whose ends are not in order");
  EXPECT_EQ(
      message("a{3,2}"),
      "the regular expression, line 1, column 2: a repetition whose numbers are not in order");
  for (const auto& [pattern, what] : std::initializer_list<std::pair<const char*, const char*>>{
           {"(a)\\1", "a reference to a group"},
           {"(?<=a)b", "look-behind"},
           {"(?<!a)b", "look-behind"},
           {"\\bword\\b", "\\b, a word's boundary,"},
           {"((?!a)b)*", "look-ahead within a group that is repeated"},
           {"(?>a)", "an atomic group"},
           {"\\p{Greek}", "\\p{Greek}"},
           {"(?m)^a", "flag m"},
           {"(?(1)a)", "a conditional group"}}) {
    const Status status = compile_regex(pattern).status();
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented) << pattern << status.to_string();
    EXPECT_NE(status.message().find(what), std::string::npos) << status.message();
  }
}

TEST(Regex, HostileOnesEndInANamedLimit) {
  GrammarLimits limits;
  limits.max_compile_time = std::chrono::milliseconds(500);
  const auto status = [&](const std::string& pattern) {
    GrammarBudget budget(limits);
    return regex_to_dfa(pattern, {}, budget).status();
  };
  for (const std::string& pattern :
       {std::string("(a|b)*a(a|b){30}"), std::string("((a{100}){100}){100}"),
        std::string("((((.{9}){9}){9}){9}){9}"), std::string(200, '(') + std::string(200, ')'),
        std::string("(x+x+)+y{1,99999999}"), std::string(2'000'000, 'a'),
        std::string("(\\p{L}{1,300}|[a-z]{1,300}x){1,300}")}) {
    const Status result = status(pattern);
    EXPECT_EQ(result.code(), StatusCode::kResourceExhausted)
        << pattern.substr(0, 50) << ": " << result.to_string();
    EXPECT_NE(result.message().find("limit max_"), std::string::npos) << result.message();
  }
  EXPECT_TRUE(status("(x+x+)+y").ok());  // only backtracking would mind
  EXPECT_TRUE(status("[a-z]{1,5000}").ok());
}

}  // namespace
}  // namespace quire
