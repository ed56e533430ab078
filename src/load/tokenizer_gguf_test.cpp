// What tokenizers of GGUF files are made into.
#include "load/tokenizer_gguf.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "text/tokenizer.h"

namespace quire {
namespace {

// Gemma 4's, as llama.cpp's converter writes it, of few tokens.
GgufTokenizerKeys gemma4_keys() {
  GgufTokenizerKeys keys;
  keys.model = "gemma4";
  keys.tokens = {"<unk>", "<bos>", "<turn|>", "▁",    "a",      "b",
                 "▁a",    "ab",    "\n",      "\n\n", "<0xC3>", "<0xA9>"};
  keys.token_type = {2, 3, 3, 1, 1, 1, 1, 1, 1, 1, 6, 6};
  keys.merges = {"▁ a", "a b", "\n \n"};
  keys.bos = 1;
  keys.unk = 0;
  keys.add_bos = false;
  return keys;
}

// Merges go over whole texts, in which spaces are characters, and what no token spells is bytes.
TEST(GgufTokenizer, Gemma4sMergesCharactersAndHasBytesForOthers) {
  auto data = read_tokenizer_gguf(gemma4_keys(), "model.gguf");
  ASSERT_TRUE(data.ok()) << data.status().to_string();
  EXPECT_EQ(data->eos_ids, std::vector<TokenId>{2});
  const auto tokenizer = Tokenizer::create(*std::move(data));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();
  const auto ids = [&](std::string_view text) {
    return (*tokenizer)->encode(text, {.add_special_tokens = false}).value();
  };
  EXPECT_EQ(ids("ab a"), (std::vector<TokenId>{7, 6}));
  EXPECT_EQ(ids("a\n\nb"), (std::vector<TokenId>{4, 9, 5}));
  EXPECT_EQ(ids("\u00E9"), (std::vector<TokenId>{10, 11}));
  // The converter says that it puts the first token before a text, and older files do not say.
  EXPECT_EQ((*tokenizer)->encode("a", {.add_special_tokens = true}).value(),
            (std::vector<TokenId>{1, 4}));
}

TEST(GgufTokenizer, Gemma4sWithoutMergesIsRefused) {
  GgufTokenizerKeys keys = gemma4_keys();
  keys.merges.clear();
  const auto data = read_tokenizer_gguf(std::move(keys), "model.gguf");
  ASSERT_FALSE(data.ok());
  EXPECT_NE(data.status().message().find("merges"), std::string::npos);
}

}  // namespace
}  // namespace quire
