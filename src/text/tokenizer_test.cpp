// Properties of tokenizers over small vocabularies made here; the goldens of tests/ compare them
// with the reference.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include "text/byte_alphabet.h"
#include "text/detokenizer.h"

namespace quire {
namespace {

VocabData byte_vocabulary() {
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
  const auto tokenizer = create(byte_vocabulary());
  EXPECT_EQ(*tokenizer->encode("aaaab"),
            (std::vector<TokenId>{*tokenizer->find("aaaa"), *tokenizer->find("b")}));
  EXPECT_EQ(*tokenizer->encode("aaab"),
            (std::vector<TokenId>{*tokenizer->find("aa"), *tokenizer->find("ab")}));
}

TEST(Tokenizer, EveryStringOfBytesSurvivesInAByteLevelVocabulary) {
  const auto tokenizer = create(byte_vocabulary());
  std::string text;
  for (int byte = 0; byte < 256; ++byte) text += static_cast<char>(byte);
  const std::vector<TokenId> ids = *tokenizer->encode(text);
  std::string bytes;
  for (const TokenId id : ids) bytes += tokenizer->token_bytes(id);
  EXPECT_EQ(bytes, text);
}

TEST(Tokenizer, ALongWordAndManyShortOnesAgree) {
  // Words of more than 32 symbols go through the heap, others through the scan.
  const auto tokenizer = create(byte_vocabulary());
  const std::string text(1001, 'a');
  const auto ids = *tokenizer->encode(text);
  EXPECT_EQ(ids.size(), 251U);
  EXPECT_EQ(tokenizer->decode(ids), text);
}

TEST(Tokenizer, RefusesAPatternThatIsNotSupported) {
  VocabData data = byte_vocabulary();
  data.pre_tokenizers.push_back({.pattern = {R"(\bword)", true}});
  const auto tokenizer = Tokenizer::create(std::move(data));
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.status().code(), StatusCode::kUnimplemented);
}

TEST(Tokenizer, APatternThatHitsItsLimitIsAnErrorOfTheText) {
  VocabData data = byte_vocabulary();
  data.pre_tokenizers.push_back({.pattern = {"(a+)+$", true}});
  const auto tokenizer = create(std::move(data));
  EXPECT_TRUE(tokenizer->encode("aab").ok());
  const auto ids = tokenizer->encode(std::string(64, 'a') + "b");
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.status().code(), StatusCode::kResourceExhausted);
}

TEST(Tokenizer, SpecialTokensNeedLeaveWhateverTheStepsAre) {
  VocabData data = byte_vocabulary();
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
  VocabData data = byte_vocabulary();
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
