// The scanners against PCRE2, pattern by pattern, on random texts; and the work they do on texts
// made to be slow.
#include "text/scanners.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <utf8proc.h>

#include "base/random.h"
#include "text/char_class.h"
#include "text/pattern.h"
#include "text/pcre2_pattern.h"
#include "text/pre_tokenizer.h"

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

std::string utf8(char32_t code) {
  utf8proc_uint8_t bytes[4];
  const auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
  return {reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size)};
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

struct WordList final : WordSink {
  std::vector<std::string> words;
  bool word(std::string_view word) override {
    words.emplace_back(word);
    return true;
  }
};

std::vector<std::string> words_of(const PreTokenizer& pre_tokenizer, std::string_view text) {
  WordList list;
  EXPECT_TRUE(pre_tokenizer.run(text, /*at_start=*/true, list).ok());
  return list.words;
}

PreTokenizerStep split_at(std::string_view regex) {
  return {.pattern = {.text = std::string(regex), .is_regex = true}};
}

// Of every known sequence, and of every pattern that is one by itself.
std::vector<std::vector<PreTokenizerStep>> known_steps() {
  const PreTokenizerStep digits{.kind = PreTokenizerStep::Kind::kDigits};
  std::vector<std::vector<PreTokenizerStep>> all = {
      {digits, split_at(gpt2_regex())},
      {split_at(R"([\p{P}\$\+<=>\^~\|`]+)"), split_at(gpt2_regex()), split_at("[0-9][0-9][0-9]")},
      {split_at(R"([\r\n])"), split_at(R"(\s?\p{L}+)"), split_at(R"(\s?\p{P}+)"),
       split_at("[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+"), digits}};
  for (const std::string_view regex : known_regexes()) {
    if (find_word_end(std::vector{split_at(regex)}) != nullptr) all.push_back({split_at(regex)});
  }
  return all;
}

// Against the steps one by one, which a further one without matches makes them do.
TEST(WordEnds, AgreeWithTheirSteps) {
  const auto sequences = known_steps();
  ASSERT_EQ(sequences.size(), 10U);
  for (const auto& steps : sequences) {
    ASSERT_NE(find_word_end(steps), nullptr) << steps.back().pattern.text;
    auto slow_steps = steps;
    slow_steps.push_back({.pattern = {.text = "in no text", .is_regex = false}});
    ASSERT_EQ(find_word_end(slow_steps), nullptr);
    const auto fast = PreTokenizer::create(steps);
    const auto slow = PreTokenizer::create(slow_steps);
    ASSERT_TRUE(fast.ok() && slow.ok());
    const auto compare = [&](const std::string& text) {
      ASSERT_EQ(words_of(*fast, text), words_of(*slow, text))
          << steps.back().pattern.text << " on \"" << text << '"';
    };
    for (std::uint64_t seed = 0; seed < 4000; ++seed) {
      compare(random_text(seed));
      std::string bytes;
      for (std::uint64_t i = 0; i < seed % 24; ++i) {
        bytes += static_cast<char>(random_bits(seed, i));
      }
      compare(bytes);
    }
  }
}

// Characters of which the tables of Unicode's versions know different things are among them.
TEST(WordEnds, AgreeOnCharactersOfAllKinds) {
  for (const auto& steps : known_steps()) {
    auto slow_steps = steps;
    slow_steps.push_back({.pattern = {.text = "in no text", .is_regex = false}});
    const auto fast = PreTokenizer::create(steps);
    const auto slow = PreTokenizer::create(slow_steps);
    ASSERT_TRUE(fast.ok() && slow.ok());
    for (char32_t code = 0x80; code < 0x20000; code += 5) {
      if (code >= 0xD800 && code < 0xE000) continue;
      const std::string c = utf8(code);
      const std::string text = "a" + c + c + " " + c + "1 " + c + ",  " + c + "a\n" + c;
      ASSERT_EQ(words_of(*fast, text), words_of(*slow, text))
          << steps.back().pattern.text << " on " << text;
    }
  }
}

TEST(WordEnds, OtherStepsAreNotKnown) {
  PreTokenizerStep runs{.kind = PreTokenizerStep::Kind::kDigits};
  runs.behavior = SplitBehavior::kContiguous;
  EXPECT_EQ(find_word_end(std::vector{runs, split_at(gpt2_regex())}), nullptr);
  PreTokenizerStep removed = split_at(gpt2_regex());
  removed.behavior = SplitBehavior::kRemoved;
  EXPECT_EQ(find_word_end(std::vector{removed}), nullptr);
  EXPECT_EQ(find_word_end(std::vector{split_at(R"(\p{L}+)")}), nullptr);
  EXPECT_EQ(find_word_end({}), nullptr);
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
