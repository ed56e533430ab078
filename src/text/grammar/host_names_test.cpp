// Host names with A-labels: what is decoded, what is allowed, and that what is begun can be ended.
#include "text/grammar/host_names.h"

#include <chrono>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "text/grammar/idna.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/matcher_test_support.h"
#include "text/grammar/punycode.h"
#include "text/utf8.h"

namespace quire {
namespace {

std::u32string code_points(std::string_view text) {
  std::u32string codes;
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text, i);
    codes += c.code;
    i += c.size;
  }
  return codes;
}

std::string small_letters(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

std::string random_label(std::mt19937& random, std::size_t size) {
  static constexpr std::string_view kCharacters = "abcxyz0189----";
  std::string text;
  while (text.size() < size) text += kCharacters[random() % kCharacters.size()];
  return text;
}

bool is_host_name(std::string_view text) { return host_names()->matches(text); }

CompiledPtr host_name_schema() {
  constexpr std::string_view kSchema = R"({"format": "hostname", "type": "string"})";
  GrammarBudget budget;
  return compiled(json_schema_grammar(kSchema, JsonSchemaOptions(), budget));
}

TEST(HostNames, DecideLabelsAsPythonsIdnaDoes) {
  const auto labels =
      read_json_file(std::filesystem::path(QUIRE_SOURCE_DIR) / "tests/data/a_labels.json", 1 << 20);
  ASSERT_TRUE(labels.ok()) << labels.status().to_string();
  std::size_t valid = 0;
  for (const json::value& entry : labels->get_array()) {
    const std::string label(entry.get_array()[0].get_string());
    const bool is_valid = entry.get_array()[1].is_string();
    EXPECT_EQ(is_host_name(label), is_valid) << label;
    if (!is_valid) continue;
    ++valid;
    const std::string behind = small_letters(label.substr(4));
    const std::u32string meant = code_points(std::string_view(entry.get_array()[1].get_string()));
    EXPECT_EQ(decode_punycode(behind), meant) << label;
    EXPECT_EQ(encode_punycode(meant), behind) << label;
  }
  EXPECT_EQ(valid, 250U);
}

// Whatever letters, digits and hyphens stand behind "xn--".
TEST(HostNames, CompleteEveryBeginningOfAnALabel) {
  std::mt19937 random(1);
  std::vector<std::string> begun = {"",    "-",    "--",    "---",   "----",    "a-",    "a--",
                                    "ab-", "ab--", "ab---", "-a--b", "a--b--c", "----a", "0"};
  for (std::size_t size = 0; size <= kMaxALabel - 4; ++size) {
    for (int i = 0; i < 20; ++i) begun.push_back(random_label(random, size));
    begun.push_back(std::string(size, '-'));
  }
  for (const std::string& beginning : begun) {
    std::string text = beginning;
    std::string rest = a_label_completion(text);
    ASSERT_LE(rest.size(), kALabelRoom) << beginning;
    for (; !rest.empty(); rest.erase(0, 1)) {
      ASSERT_EQ(a_label_completion(text), rest) << beginning;
      text += rest.front();
    }
    const auto label = decode_punycode(text);
    ASSERT_TRUE(label) << beginning << ": " << text;
    EXPECT_EQ(check_u_label(*label), LabelDirection::kLeftToRight) << beginning << ": " << text;
  }
}

TEST(HostNames, NeverLeadWhereNoNameEnds) {
  const OpenAutomaton& names = *host_names();
  static constexpr std::string_view kBytes = "xn----.ab0.z";
  std::size_t with_a_label = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    std::string text = seed % 3 == 0 ? "" : "xn--";
    std::string state = names.start();
    for (const char c : text) state = names.next(state, static_cast<std::uint8_t>(c)).value();
    const std::size_t most = 1 + random() % 300;
    for (std::size_t step = 0; step < most; ++step) {
      const char c = kBytes[random() % kBytes.size()];
      const auto behind = names.next(state, static_cast<std::uint8_t>(c));
      if (!behind) continue;
      state = *behind;
      text += c;
    }
    for (std::string way = names.way_out(state); !way.empty(); way.erase(0, 1)) {
      ASSERT_LE(way.size(), names.max_way_out());
      ASSERT_FALSE(names.accepts(state)) << text;
      ASSERT_EQ(names.way_out(state), way) << text;
      const auto behind = names.next(state, static_cast<std::uint8_t>(way.front()));
      ASSERT_TRUE(behind) << text << " and " << way;
      state = *behind;
      text += way.front();
    }
    ASSERT_TRUE(names.accepts(state)) << text;
    ASSERT_LE(text.size(), 253U);
    ASSERT_TRUE(is_host_name(text));
    with_a_label += text.find("xn--") == std::string::npos ? 0 : 1;
  }
  EXPECT_GT(with_a_label, 100U);
}

TEST(HostNames, KeepTheirLengths) {
  const std::string label(63, 'a');
  const std::string name = label + "." + label + "." + label + "." + std::string(61, 'a');
  EXPECT_TRUE(is_host_name(name));
  EXPECT_FALSE(is_host_name(name + "a"));
  EXPECT_FALSE(is_host_name(label + "a"));
  EXPECT_FALSE(is_host_name(""));
  for (const char* bad : {".", "a.", ".a", "a..b", "-a", "a-", "a_b", "ab--c"}) {
    EXPECT_FALSE(is_host_name(bad)) << bad;
  }
  EXPECT_TRUE(is_host_name("a--b.C"));
  EXPECT_TRUE(is_host_name("XN--LL-0EA"));
  // As long as an A-label may be.
  const std::string basic(kMaxALabel - 8, 'a');
  EXPECT_TRUE(is_host_name("xn--" + basic + a_label_completion(basic)));
}

TEST(HostNames, KeepTheDirectionsOfAllLabelsTogether) {
  EXPECT_TRUE(is_host_name("xn--4dbc5h.com"));  // Hebrew
  EXPECT_TRUE(is_host_name("com.xn--4dbc5h"));
  EXPECT_FALSE(is_host_name("0a.xn--4dbc5h"));
  EXPECT_FALSE(is_host_name("xn--4dbc5h.0a"));
  EXPECT_TRUE(is_host_name("0a.xn--ll-0ea"));
  EXPECT_TRUE(is_host_name("xn--0-gyc.1a"));
  EXPECT_FALSE(is_host_name("xn--0-gyc.xn--4dbc5h"));
  EXPECT_FALSE(is_host_name("xn--4dbc5h.xn--0-gyc"));
}

TEST(HostNames, AreMaskedTokenByToken) {
  const CompiledPtr grammar = host_name_schema();
  for (const char* begun :
       {"\"", "\"xn", "\"xn--", "\"xn--4ca", "\"xn--ab-", "\"www.xn--ll-0ea", "\"xn--4dbc5h.",
        "\"xn--abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxy",
        "\"xn--abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"}) {
    GrammarMatcher matcher(grammar);
    ASSERT_TRUE(matcher.accept_text(begun)) << begun;
    expect_mask_agrees(matcher);
  }
}

// With what `left` tokens allow, at random.
TEST(HostNames, CloseInTime) {
  const CompiledPtr grammar = host_name_schema();
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    GrammarMatcher matcher(grammar);
    ASSERT_TRUE(matcher.accept_text("\"xn--"));
    const std::uint32_t least = matcher.tokens_to_end().value().value();
    for (std::uint32_t left = least + seed;; --left) {
      ASSERT_LE(matcher.tokens_to_end().value().value(), left);
      if (matcher.can_end()) break;
      std::vector<std::uint32_t> words = mask_of(matcher);
      ASSERT_TRUE(matcher.keep_closable(left - 1, words).ok());
      const std::vector<TokenId> tokens = tokens_of(words);
      ASSERT_FALSE(tokens.empty());
      ASSERT_TRUE(matcher.accept(tokens[random() % tokens.size()]));
    }
  }
}

TEST(HostNames, AreNotWhatTheirComplementHas) {
  const auto accepts = [](std::string_view schema, std::string_view text) {
    GrammarLimits limits;
    limits.max_compile_time = std::chrono::seconds(30);  // whatever looks on
    GrammarBudget budget(limits);
    GrammarMatcher matcher(
        compiled(json_schema_grammar(schema, JsonSchemaOptions(), budget), limits));
    return matcher.accept_text(text) && matcher.can_end();
  };
  constexpr std::string_view kNot = R"({"type": "string", "not": {"format": "hostname"}})";
  EXPECT_FALSE(accepts(kNot, "\"xn--ll-0ea\""));
  EXPECT_FALSE(accepts(kNot, "\"a.xn--ll-0ea\""));
  EXPECT_TRUE(accepts(kNot, "\"a b\""));
  // Narrowed or not.
  for (const char* more : {R"("maxLength": 100)", R"("pattern": "a|x")"}) {
    const std::string schema =
        std::string(R"({"type": "string", "not": {"format": "hostname", )") + more + "}}";
    EXPECT_FALSE(accepts(schema, "\"xn--ll-0ea\"")) << schema;
    EXPECT_TRUE(accepts(schema, "\"a b\"")) << schema;
  }
  constexpr std::string_view kAny =
      R"({"type": "string", "anyOf": [{"format": "hostname"}, {"pattern": "^[a-z ]+$"}]})";
  for (const char* text : {"\"xn--ll-0ea\"", "\"a b\"", "\"a-b.c\""}) {
    EXPECT_TRUE(accepts(kAny, text)) << text;
  }
  EXPECT_FALSE(accepts(kAny, "\"xn--al-0ea\""));
  constexpr std::string_view kShort =
      R"({"type": "string", "format": "hostname", "minLength": 1, "maxLength": 255})";
  EXPECT_TRUE(accepts(kShort, "\"xn--ll-0ea\""));
  constexpr std::string_view kListed =
      R"({"format": "hostname", "enum": ["xn--ll-0ea", "xn--al-0ea", "a"]})";
  EXPECT_TRUE(accepts(kListed, "\"xn--ll-0ea\""));
  EXPECT_FALSE(accepts(kListed, "\"xn--al-0ea\""));
}

}  // namespace
}  // namespace quire
