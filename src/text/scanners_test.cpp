// The scanners against PCRE2, pattern by pattern, on random texts; and the work they do on texts
// made to be slow.
#include "text/scanners.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "text/char_class.h"
#include "text/pattern.h"
#include "text/pcre2_pattern.h"

namespace quire {
namespace {

// Characters of every kind that a pattern tells apart, all older than Unicode 14, which PCRE2 10.42
// knows (where the two differ on younger ones, the goldens decide).
const std::vector<std::string>& alphabet() {
  static const std::vector<std::string> pieces = {
      "a",      "b",          "A",          "B",      "s",      "S",      "ll",     "'",
      "'s",     "'LL",        "'\u017F",    "\u017F", "\u00E9", "\u00C9", "\u01C5", "\u02B0",
      "\u00AA", "\u4E2D",     "\uD55C",     "\u3042", "\u0E01", "\u0301", "\u0E31", "\u0903",
      "1",      "2",          "\u0663",     "\u00BD", "\u2163", ".",      ",",      "!",
      "/",      "$",          "+",          "^",      "`",      "_",      "\u3002", "\u20AC",
      "\u221E", "\U0001F642", " ",          "  ",     "\t",     "\n",     "\r",     "\r\n",
      "\u00A0", "\u3000",     "\u0085",     "\u2028", "\u200B", "\u200D", "\x01",   "\x7F",
      "\uE000", "\uFFFF",     "\U00020000", "\u0800", "\u9FA5", "\u9FA6"};
  return pieces;
}

std::string random_text(std::uint64_t seed) {
  const std::uint64_t length = 1 + random_bits(seed, 0) % 24;
  std::string text;
  for (std::uint64_t i = 1; i <= length; ++i) {
    const std::uint64_t bits = random_bits(seed, i);
    // Runs of one kind are as likely as changes.
    const std::uint64_t window = 1 + (bits >> 32) % alphabet().size();
    text += alphabet()[(random_bits(seed, 1000) + bits % window) % alphabet().size()];
  }
  return text;
}

std::vector<std::pair<std::size_t, std::size_t>> matches_of(const Pattern& pattern,
                                                            std::string_view text) {
  std::vector<std::pair<std::size_t, std::size_t>> spans;
  Status status;
  Matches matches(pattern, text);
  for (TextSpan match; matches.next(match, status);) spans.emplace_back(match.begin, match.end);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return spans;
}

TEST(Scanners, AgreeWithPcre2OnRandomTexts) {
  ASSERT_GE(known_regexes().size(), 16U);
  for (const std::string_view regex : known_regexes()) {
    const auto scanner = Pattern::create({.text = std::string(regex), .is_regex = true});
    const auto reference = Pattern::create_pcre2(regex);
    ASSERT_TRUE(scanner.ok() && reference.ok()) << regex;
    for (std::uint64_t seed = 0; seed < 4000; ++seed) {
      const std::string text = random_text(seed);
      ASSERT_EQ(matches_of(**scanner, text), matches_of(**reference, text))
          << regex << " on \"" << text << "\", seed " << seed;
    }
  }
}

TEST(Scanners, ReadInvalidUtf8ByteByByte) {
  for (const std::string_view regex : known_regexes()) {
    const auto scanner = Pattern::create({.text = std::string(regex), .is_regex = true});
    ASSERT_TRUE(scanner.ok());
    for (std::uint64_t seed = 0; seed < 500; ++seed) {
      std::string text;
      for (std::uint64_t i = 0; i < seed % 40; ++i) {
        text += static_cast<char>(random_bits(seed, i));
      }
      std::size_t end = 0;
      for (const auto& [match_begin, match_end] : matches_of(**scanner, text)) {
        EXPECT_GE(match_begin, end);
        EXPECT_GT(match_end, match_begin);
        EXPECT_LE(match_end, text.size());
        end = match_end;
      }
    }
  }
}

// A scanner that looked at the rest of a text again for each match would take a quadratic number of
// steps: minutes for a million characters, which the test's time limit cuts off. No time is
// measured, and matches do not overlap.
TEST(Scanners, FinishOnMillionsOfCharactersOfOneKind) {
  for (const std::string_view regex : known_regexes()) {
    const auto scanner = Pattern::create({.text = std::string(regex), .is_regex = true});
    ASSERT_TRUE(scanner.ok());
    for (const std::string unit :
         {" ", "\n", " \n", "a", "A", "aA", "1", "\u0301", "\u00AA", "\u00AAA", ".", "'", "'s",
          "\u4E2D", "\u3000", "\x01", "a ", " a"}) {
      std::string text;
      while (text.size() < 1'000'000) text += unit;
      text += "x";
      std::size_t covered = 0;
      for (const auto& [begin, end] : matches_of(**scanner, text)) covered += end - begin;
      EXPECT_LE(covered, text.size()) << regex;
    }
  }
}

TEST(Scanners, KnowPatternsByTheirExactSpelling) {
  EXPECT_NE(find_scanner(gpt2_regex()), nullptr);
  EXPECT_NE(find_scanner("[\r\n]"), nullptr);  // line breaks themselves
  EXPECT_EQ(find_scanner(R"(\p{L}+)"), nullptr);
}

TEST(CharFlags, AgreeWithTheLargeTableOnAscii) {
  for (char32_t code = 0; code < 128; ++code) {
    EXPECT_EQ(internal::kAsciiFlags[code], char_flags(code)) << static_cast<unsigned>(code);
  }
}

TEST(CharFlags, KnowUnicode16) {
  EXPECT_NE(char_flags(0x1C89) & kUpperLetter, 0);  // assigned in 16.0
  EXPECT_NE(char_flags(0x10D40) & kNumber, 0);
  EXPECT_EQ(char_flags(0x110000), 0);
  EXPECT_EQ(char_flags(0xFFFFFFFF), 0);
}

TEST(Pcre2Pattern, RefusesWhatOnigurumaMeansInAnotherWay) {
  for (const char* regex : {R"(\h+)", R"(\bword)", "(?m)a", "[[:alpha:]]", "[a&&b]", "[a[^b]]",
                            "a{2}+", R"([\S])", R"(\K)", "(*FAIL)", "(?<name>a)"}) {
    const auto pattern = Pattern::create({.text = regex, .is_regex = true});
    ASSERT_FALSE(pattern.ok()) << regex;
    EXPECT_EQ(pattern.status().code(), StatusCode::kUnimplemented);
    EXPECT_NE(pattern.status().message().find(regex), std::string::npos)
        << pattern.status().message();
  }
  for (const char* regex : {"(", "[a", "a\\", "a{2,1}"}) {
    const auto pattern = Pattern::create({.text = regex, .is_regex = true});
    ASSERT_FALSE(pattern.ok()) << regex;
    EXPECT_EQ(pattern.status().code(), StatusCode::kBadModel);
  }
}

TEST(Pcre2Pattern, SaysThatTheMatchLimitIsHit) {
  const auto pattern = Pattern::create({.text = "(a+)+$", .is_regex = true});
  ASSERT_TRUE(pattern.ok());
  TextSpan match;
  Status status;
  EXPECT_FALSE((*pattern)->find(std::string(40, 'a') + "b", 0, match, status));
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("(a+)+$"), std::string::npos) << status.message();
}

TEST(Pcre2Pattern, KeepsGoingWhereAMatchIsEmpty) {
  const auto pattern = Pattern::create({.text = "x*", .is_regex = true});
  ASSERT_TRUE(pattern.ok());
  const std::vector<std::pair<std::size_t, std::size_t>> expected = {{0, 0}, {1, 2}, {3, 3}};
  EXPECT_EQ(matches_of(**pattern, "axb"), expected);
}

}  // namespace
}  // namespace quire
