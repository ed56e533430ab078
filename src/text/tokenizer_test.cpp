// Properties of tokenizers over small vocabularies made here; the goldens of tests/ compare them
// with the reference.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include "text/byte_alphabet.h"
#include "text/detokenizer.h"

namespace quire {
namespace {

VocabData byte_vocab_data() {
  VocabData data;
  for (unsigned byte = 0; byte < 256; ++byte) {
    data.tokens.emplace_back(byte_to_symbol(static_cast<std::uint8_t>(byte)));
  }
  for (const auto& [left, right] : {std::pair("a", "a"), std::pair("aa", "aa"), {"a", "b"}}) {
    data.merges.push_back({left, right});
    data.tokens.push_back(std::string(left) + right);
  }
  data.kinds.assign(data.tokens.size(), TokenKind::kNormal);
  data.decoders.push_back({.kind = DecoderStep::Kind::kByteLevel});
  return data;
}

std::unique_ptr<const Tokenizer> create(VocabData data) {
  auto tokenizer = Tokenizer::create(std::move(data));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

TEST(Tokenizer, MergesTheBestPairFirstAndTheLeftmostOfEquals) {
  const auto tokenizer = create(byte_vocab_data());
  EXPECT_EQ(*tokenizer->encode("aaaab"),
            (std::vector<TokenId>{*tokenizer->find("aaaa"), *tokenizer->find("b")}));
  EXPECT_EQ(*tokenizer->encode("aaab"),
            (std::vector<TokenId>{*tokenizer->find("aa"), *tokenizer->find("ab")}));
}

TEST(Tokenizer, EveryStringOfBytesSurvivesInAByteLevelVocabulary) {
  const auto tokenizer = create(byte_vocab_data());
  std::string text;
  for (int byte = 0; byte < 256; ++byte) text += static_cast<char>(byte);
  const std::vector<TokenId> ids = *tokenizer->encode(text);
  std::string bytes;
  for (const TokenId id : ids) bytes += tokenizer->token_bytes(id);
  EXPECT_EQ(bytes, text);
}

TEST(Tokenizer, ALongWordAndManyShortOnesAgree) {
  // Words of more than 32 symbols go through the heap, others through the scan.
  const auto tokenizer = create(byte_vocab_data());
  const std::string text(1001, 'a');
  const auto ids = *tokenizer->encode(text);
  EXPECT_EQ(ids.size(), 251U);
  EXPECT_EQ(tokenizer->decode(ids), text);
}

TEST(Tokenizer, EncodingEndsWhereThereAreTooManyTokens) {
  VocabData data = byte_vocab_data();
  data.pre_tokenizers.push_back({.kind = PreTokenizerStep::Kind::kDigits});
  // Nothing can be said of a text by its length where spaces at its ends go.
  data.normalizers.push_back({.kind = NormalizerStep::Kind::kStrip});
  const auto tokenizer = create(std::move(data));
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "x1";
  std::size_t looks = 0;
  const auto count_looks = [&looks] {
    ++looks;
    return false;
  };
  EXPECT_EQ(tokenizer->encode(text, {}, {.max_tokens = 200'000, .cancelled = count_looks})->size(),
            200'000U);
  EXPECT_GT(looks, 0U);
  looks = 0;
  const auto ids = tokenizer->encode(text, {}, {.max_tokens = 100, .cancelled = count_looks});
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ids.status().message(), "the text has more than 100 tokens");
  EXPECT_EQ(looks, 0U) << "the rest of the text was encoded for nothing";
}

TEST(Tokenizer, AWordThatCannotFitIsRefusedBeforeItIsMerged) {
  const auto tokenizer = create(byte_vocab_data());
  // The longest token has four bytes.
  const EncodeLimits limits = {.max_tokens = 100};
  EXPECT_EQ(tokenizer->encode(std::string(400, 'a'), {}, limits)->size(), 100U);
  EXPECT_FALSE(tokenizer->encode(std::string(404, 'a'), {}, limits).ok());
  const auto word = tokenizer->encode(std::string(1000, 'a'), {}, {.max_word_bytes = 999});
  ASSERT_FALSE(word.ok());
  EXPECT_EQ(word.status().message(), "the text has a word of 1000 bytes, more than 999");
}

// Whatever takes text away on its way to the words: a text that fits is never refused.
TEST(Tokenizer, ALongTextThatFitsIsNeverRefused) {
  const std::string spaces(100'000, ' ');
  const auto fits = [](VocabData data, const std::string& text) {
    const auto tokenizer = create(std::move(data));
    const std::size_t count = tokenizer->encode(text)->size();
    EXPECT_LE(count, 8U);
    return tokenizer->encode(text, {}, {.max_tokens = count}).ok() &&
           !tokenizer->encode(text, {}, {.max_tokens = count - 1}).ok();
  };
  VocabData data = byte_vocab_data();
  data.normalizers.push_back({.kind = NormalizerStep::Kind::kStrip});
  EXPECT_TRUE(fits(data, spaces + "ab" + spaces));

  data = byte_vocab_data();
  data.normalizers.push_back(
      {.kind = NormalizerStep::Kind::kReplace, .pattern = {" +", true}, .content = " "});
  EXPECT_TRUE(fits(data, "a" + spaces + "b"));

  data = byte_vocab_data();
  data.normalizers.push_back(
      {.kind = NormalizerStep::Kind::kReplace, .pattern = {"  ", false}, .content = ""});
  EXPECT_TRUE(fits(data, "a" + spaces + "b"));

  data = byte_vocab_data();
  data.pre_tokenizers.push_back({.kind = PreTokenizerStep::Kind::kWhitespaceSplit});
  EXPECT_TRUE(fits(data, "a" + spaces + "b"));

  data = byte_vocab_data();
  data.pre_tokenizers.push_back(
      {.pattern = {" ", false}, .behavior = SplitBehavior::kRemoved, .content = ""});
  EXPECT_TRUE(fits(data, "a" + spaces + "b"));

  data = byte_vocab_data();
  data.tokens.emplace_back("<mask>");
  data.kinds.push_back(TokenKind::kControl);
  data.added_tokens.push_back({.content = "<mask>",
                               .id = static_cast<TokenId>(data.tokens.size() - 1),
                               .special = true,
                               .lstrip = true,
                               .rstrip = true});
  const auto tokenizer = create(std::move(data));
  EXPECT_EQ(tokenizer->encode("a" + spaces + "<mask>", {.parse_special = true}, {.max_tokens = 2})
                ->size(),
            2U);

  // Characters that nothing spells: none of them a token, or all of them one.
  for (const bool fuse : {false, true}) {
    VocabData characters;
    characters.style = BpeStyle::kCharacters;
    characters.tokens = {"<unk>", "a", "b"};
    characters.kinds = {TokenKind::kUnknown, TokenKind::kNormal, TokenKind::kNormal};
    if (fuse) characters.unk_id = 0;
    characters.fuse_unk = fuse;
    EXPECT_TRUE(fits(characters, "ab" + std::string(100'000, 'z')));
  }
}

// Where only merges say where words end, text is cut wherever none joins two characters; unknown
// tokens that fuse still do.
TEST(Tokenizer, CutsWhereNoMergeJoins) {
  VocabData data;
  data.style = BpeStyle::kCharacters;
  data.tokens = {"<unk>",
                 "\xE2\x96\x81",
                 "a",
                 "b",
                 "ab",
                 "aba",
                 "\xE2\x96\x81"
                 "a"};
  data.scores = {0, 0, 0, 0, -1, -2, -3};
  data.kinds.assign(data.tokens.size(), TokenKind::kNormal);
  data.kinds[0] = TokenKind::kUnknown;
  data.unk_id = 0;
  const std::string text =
      "ababbaazz\xC3\xB6\xE2\x96\x81"
      "ab\xE2\x96\x81"
      "aa";
  const std::vector<TokenId> until_unknown = {4, 4, 3, 2, 2};
  const std::vector<TokenId> behind = {1, 4, 6, 2};
  for (const bool fuse : {false, true}) {
    data.fuse_unk = fuse;
    std::vector<TokenId> expected = until_unknown;
    expected.insert(expected.end(), fuse ? 1 : 3, 0);
    expected.insert(expected.end(), behind.begin(), behind.end());
    EXPECT_EQ(create(data)->encode(text).value(), expected) << fuse;
  }
}

TEST(Tokenizer, EncodingEndsWhenNobodyWantsTheTokensAnyMore) {
  VocabData data = byte_vocab_data();
  data.pre_tokenizers.push_back({.kind = PreTokenizerStep::Kind::kDigits});
  const auto tokenizer = create(std::move(data));
  std::string many_words;
  for (int i = 0; i < 100'000; ++i) many_words += "x1";
  // Of words, and of the merges of one word.
  for (const std::string& text : {many_words, std::string(100'000, 'a')}) {
    int looks = 0;
    const EncodeLimits limits = {.cancelled = [&looks] { return ++looks == 3; }};
    const auto ids = tokenizer->encode(text, {}, limits);
    ASSERT_FALSE(ids.ok());
    EXPECT_EQ(ids.status().code(), StatusCode::kCancelled);
    EXPECT_EQ(looks, 3);
  }
}

TEST(Tokenizer, RefusesAPatternThatIsNotSupported) {
  VocabData data = byte_vocab_data();
  data.pre_tokenizers.push_back({.pattern = {R"(\bword)", true}});
  const auto tokenizer = Tokenizer::create(std::move(data));
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.status().code(), StatusCode::kUnimplemented);
}

TEST(Tokenizer, APatternThatHitsItsLimitIsAnErrorOfTheText) {
  VocabData data = byte_vocab_data();
  data.pre_tokenizers.push_back({.pattern = {"(a+)+$", true}});
  const auto tokenizer = create(std::move(data));
  EXPECT_TRUE(tokenizer->encode("aab").ok());
  const auto ids = tokenizer->encode(std::string(64, 'a') + "b");
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.status().code(), StatusCode::kResourceExhausted);
}

TEST(Tokenizer, SpecialTokensNeedLeaveWhateverTheStepsAre) {
  VocabData data = byte_vocab_data();
  data.tokens.emplace_back("<eos>");
  data.kinds.push_back(TokenKind::kControl);
  const auto eos = static_cast<TokenId>(data.tokens.size() - 1);
  for (const bool normalized : {false, true}) {
    VocabData copy = data;
    copy.added_tokens.push_back(
        {.content = "<eos>", .id = eos, .special = true, .normalized = normalized});
    copy.normalizers.push_back({.kind = NormalizerStep::Kind::kNfc});
    const auto tokenizer = create(std::move(copy));
    const auto plain = *tokenizer->encode("a<eos>b");
    EXPECT_EQ(std::count(plain.begin(), plain.end(), eos), 0);
    const auto parsed = *tokenizer->encode("a<eos>b", {.parse_special = true});
    EXPECT_EQ(std::count(parsed.begin(), parsed.end(), eos), 1);
  }
}

TEST(Tokenizer, RefusesADecoderThatNeedsTheWholeText) {
  VocabData data = byte_vocab_data();
  data.decoders.push_back({.kind = DecoderStep::Kind::kStrip, .content = " ", .stop = 1});
  const auto tokenizer = Tokenizer::create(std::move(data));
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.status().code(), StatusCode::kUnimplemented);
}

TEST(Detokenizer, KeepsTheLeadingSpaceAfterAPrompt) {
  VocabData data;
  data.style = BpeStyle::kCharacters;
  data.tokens = {"\u2581", "a", "b"};
  data.kinds.assign(3, TokenKind::kNormal);
  data.decoders = {
      {.kind = DecoderStep::Kind::kReplace, .pattern = {"\u2581", false}, .content = " "},
      {.kind = DecoderStep::Kind::kFuse},
      {.kind = DecoderStep::Kind::kStrip, .content = " ", .start = 1}};
  const auto tokenizer = create(std::move(data));
  const std::vector<TokenId> ids = {0, 0, 1};
  EXPECT_EQ(tokenizer->decode(ids), " a");
  const std::vector<TokenId> prompt = {2};
  Detokenizer after(*tokenizer, true, prompt);
  EXPECT_EQ(after.add(0), " ");
}

}  // namespace
}  // namespace quire
