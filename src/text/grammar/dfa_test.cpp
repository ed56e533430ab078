// The algebra of regular languages, against what its definition says on all short texts.
#include "text/grammar/dfa.h"

#include <array>
#include <functional>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "text/grammar/grammar_test_support.h"
#include "text/utf8.h"

namespace quire {
namespace {

constexpr std::size_t kLongest = 6;

const std::vector<std::string>& short_texts() {
  static const std::vector<std::string> texts = all_texts("ab", kLongest);
  return texts;
}

// A language by its texts of up to kLongest letters.
using Texts = std::set<std::string>;

Texts texts_of(const Dfa& dfa) {
  Texts result;
  for (const std::string& text : short_texts()) {
    if (dfa.matches(text)) result.insert(text);
  }
  return result;
}

Texts product_of(const Texts& a, const Texts& b) {
  Texts result;
  for (const std::string& x : a) {
    for (const std::string& y : b) {
      if (x.size() + y.size() <= kLongest) result.insert(x + y);
    }
  }
  return result;
}

struct Sample {
  Dfa dfa;
  Texts texts;
};

class RandomLanguages {
 public:
  explicit RandomLanguages(unsigned seed) : engine_(seed) {}

  Sample make(int depth) {
    const unsigned kind = random_() % (depth == 0 ? 2 : 8);
    if (kind == 0) return literal();
    if (kind == 1) return {Dfa::char_class({{'a', 'b'}}), {"a", "b"}};
    if (kind == 7) return repeated(make(depth - 1));
    const Sample a = make(depth - 1);
    const Sample b = make(depth - 1);
    const std::array<Dfa, 2> both = {a.dfa, b.dfa};
    Sample result;
    switch (kind) {
      case 2:
        result = {dfa_union(both, budget_).value(), a.texts};
        result.texts.insert(b.texts.begin(), b.texts.end());
        break;
      case 3:
      case 4:
        result = {dfa_concat(both, budget_).value(), product_of(a.texts, b.texts)};
        break;
      case 5:
        result = {dfa_intersect(a.dfa, b.dfa, budget_).value(), {}};
        for (const auto& text : a.texts) {
          if (b.texts.contains(text)) result.texts.insert(text);
        }
        break;
      default:
        result = {dfa_difference(a.dfa, b.dfa, budget_).value(), {}};
        for (const auto& text : a.texts) {
          if (!b.texts.contains(text)) result.texts.insert(text);
        }
        break;
    }
    return result;
  }

  Sample repeated(const Sample& part) {
    const auto min = static_cast<std::uint32_t>(random_() % 3);
    const bool no_max = random_() % 3 == 0;
    const auto max = min + static_cast<std::uint32_t>(random_() % 3);
    Sample result = {
        dfa_repeat(part.dfa, min, no_max ? std::nullopt : std::optional(max), budget_).value(), {}};
    Texts power = {""};
    for (std::uint32_t i = 0; i <= (no_max ? min + kLongest : max); ++i) {
      if (i >= min) result.texts.insert(power.begin(), power.end());
      power = product_of(power, part.texts);
    }
    return result;
  }

  GrammarBudget& budget() { return budget_; }

 private:
  Sample literal() {
    std::string text;
    for (unsigned i = random_() % 3; i > 0; --i) text += random_() % 2 == 0 ? 'a' : 'b';
    return {Dfa::literal(text), {text}};
  }

  unsigned random_() { return static_cast<unsigned>(engine_()); }

  std::mt19937 engine_;
  GrammarBudget budget_;
};

TEST(Dfa, TheAlgebraAgreesWithItsDefinition) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    RandomLanguages random(seed);
    const Sample sample = random.make(4);
    ASSERT_EQ(texts_of(sample.dfa), sample.texts) << "seed " << seed;
  }
}

TEST(Dfa, EqualLanguagesAreEqualAutomata) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    RandomLanguages random(seed);
    const Dfa a = random.make(3).dfa;
    const Dfa b = random.make(3).dfa;
    GrammarBudget& budget = random.budget();
    const std::array<Dfa, 2> ab = {a, b}, ba = {b, a};
    EXPECT_EQ(dfa_union(ab, budget).value(), dfa_union(ba, budget).value()) << seed;
    // a without b is a and not b; not (a or b) is not a and not b.
    const Dfa not_a = dfa_complement(a, budget).value();
    const Dfa not_b = dfa_complement(b, budget).value();
    EXPECT_EQ(dfa_difference(a, b, budget).value(), dfa_intersect(a, not_b, budget).value())
        << seed;
    EXPECT_EQ(dfa_complement(dfa_union(ab, budget).value(), budget).value(),
              dfa_intersect(not_a, not_b, budget).value())
        << seed;
    EXPECT_EQ(dfa_complement(not_a, budget).value(), a) << seed;
    const std::array<Dfa, 3> aab = {a, a, b};
    EXPECT_EQ(dfa_union(aab, budget).value(), dfa_union(ab, budget).value()) << seed;
  }
}

TEST(Dfa, RepeatingByCopiesAndByStepsIsOne) {
  GrammarBudget budget;
  const Dfa character = Dfa::char_class(CharSet::all());
  const Dfa chained = dfa_repeat(character, 3, 7, budget).value();
  std::vector<Dfa> parts(3, character);
  for (int i = 0; i < 4; ++i) parts.push_back(dfa_repeat(character, 0, 1, budget).value());
  EXPECT_EQ(chained, dfa_concat(parts, budget).value());
  EXPECT_EQ(dfa_repeat(character, 0, {}, budget).value(), Dfa::any_text());
  EXPECT_EQ(dfa_repeat(Dfa::literal("ab"), 2, 2, budget).value(), Dfa::literal("abab"));
  EXPECT_TRUE(dfa_repeat(character, 3, 2, budget).value().is_empty());
}

TEST(Dfa, CharactersAreUtf8AndNothingElse) {
  const Dfa any = Dfa::char_class(CharSet::all());
  const Dfa some = Dfa::char_class({{0x7F, 0x81}, {0x7FE, 0x802}, {0xFFFE, 0x10001}});
  std::size_t in_any = 0;
  for (char32_t code = 0; code <= 0x110000; ++code) {
    if (code > 0x11000 && code % 97 != 0) continue;
    // As if surrogates and what is beyond Unicode could be written.
    std::string bytes;
    const auto add = [&](char32_t byte) {
      bytes += static_cast<char>(static_cast<unsigned char>(byte));
    };
    if (code < 0x80) {
      add(code);
    } else if (code < 0x800) {
      add(0xC0 | code >> 6), add(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
      add(0xE0 | code >> 12), add(0x80 | (code >> 6 & 0x3F)), add(0x80 | (code & 0x3F));
    } else {
      add(0xF0 | code >> 18), add(0x80 | (code >> 12 & 0x3F)), add(0x80 | (code >> 6 & 0x3F)),
          add(0x80 | (code & 0x3F));
    }
    ASSERT_EQ(any.matches(bytes), is_valid_utf8(bytes)) << std::hex << static_cast<unsigned>(code);
    if (any.matches(bytes)) ++in_any;
    const bool wanted = (code >= 0x7F && code <= 0x81) || (code >= 0x7FE && code <= 0x802) ||
                        (code >= 0xFFFE && code <= 0x10001);
    ASSERT_EQ(some.matches(bytes), wanted) << std::hex << static_cast<unsigned>(code);
  }
  EXPECT_GT(in_any, 60000U);
  EXPECT_FALSE(any.matches("\xC0\x80"));      // overlong
  EXPECT_FALSE(any.matches("\xE0\x80\x80"));  // overlong
  EXPECT_TRUE(Dfa::any_text().matches("a\u00E9\u20AC\U0001F600"));
  EXPECT_FALSE(Dfa::any_text().matches("a\xE9"));
}

TEST(Dfa, ListsItsTextsAndTheShortest) {
  GrammarBudget budget;
  const std::array<Dfa, 3> parts = {Dfa::literal("b"), Dfa::literal("abc"), Dfa::literal("")};
  const Dfa dfa = dfa_union(parts, budget).value();
  EXPECT_EQ(dfa.texts(3), (std::vector<std::string>{"", "abc", "b"}));
  EXPECT_EQ(dfa.texts(2), std::nullopt);
  EXPECT_EQ(dfa.shortest(), "");
  EXPECT_EQ(Dfa::nothing().shortest(), std::nullopt);
  EXPECT_EQ(Dfa::nothing().texts(0), std::vector<std::string>());
  EXPECT_EQ(Dfa::any_text().texts(1000), std::nullopt);
  EXPECT_EQ(dfa_repeat(Dfa::literal("ab"), 2, {}, budget)->shortest(), "abab");
}

TEST(Dfa, LimitsAreNamed) {
  GrammarLimits limits;
  limits.max_states = 100;
  GrammarBudget budget(limits);
  const Status states = dfa_repeat(Dfa::literal("ab"), 0, 200, budget).status();
  EXPECT_EQ(states.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(states.message().find("max_states"), std::string::npos) << states.message();
  // The tenth letter from the end is an a: two to the tenth states.
  const std::array<Dfa, 3> parts = {
      dfa_repeat(Dfa::char_class({{'a', 'b'}}), 0, {}, budget).value(), Dfa::literal("a"),
      dfa_repeat(Dfa::char_class({{'a', 'b'}}), 9, 9, budget).value()};
  EXPECT_EQ(dfa_concat(parts, budget).status().code(), StatusCode::kResourceExhausted);

  GrammarBudget cancelled({}, [] { return true; });
  EXPECT_EQ(dfa_repeat(dfa_complement(Dfa::literal("ab"), budget).value(), 500, 900, cancelled)
                .status()
                .code(),
            StatusCode::kCancelled);
  GrammarLimits short_time;
  short_time.max_compile_time = std::chrono::milliseconds(0);
  GrammarBudget late(short_time);
  const Status time =
      dfa_repeat(dfa_complement(Dfa::literal("ab"), budget).value(), 500, 900, late).status();
  EXPECT_NE(time.message().find("max_compile_time"), std::string::npos) << time.message();
}

}  // namespace
}  // namespace quire
