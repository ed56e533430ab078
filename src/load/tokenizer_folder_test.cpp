// Vocabularies in other files than tokenizer.json, against the ids of their own libraries
// (scripts/goldens/tokenizer_files.py), and files that are none.
#include "load/tokenizer_folder.h"

#include <fstream>
#include <string>
#include <vector>

#include <boost/json/value_from.hpp>
#include <boost/json/value_to.hpp>
#include <gmock/gmock.h>

#include "base/file.h"
#include "base/json.h"
#include "load/byte_ranks.h"
#include "load/sentencepiece_model.h"
#include "load/tokenizer_ends.h"
#include "load/tokenizer_json.h"
#include "text/tokenizer.h"
#include "weights/temp_folder.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const fs::path kTokenizers = QUIRE_SOURCE_DIR "/tests/data/tokenizers";
constexpr std::size_t kStep = 11;  // of all strings, as the script takes them

json::value read_config(const fs::path& folder) {
  auto config = read_json_file(folder / "tokenizer_config.json", 1U << 20);
  return config.ok() ? *std::move(config) : json::value();
}

Result<std::unique_ptr<const Tokenizer>> open_folder(const fs::path& folder) {
  if (fs::exists(folder / "tokenizer.json")) {
    QUIRE_ASSIGN_OR_RETURN(const auto file, read_json_file(folder / "tokenizer.json", 1U << 24));
    QUIRE_ASSIGN_OR_RETURN(VocabData data,
                           read_tokenizer_json(file, nullptr, nullptr, nullptr, "f"));
    return Tokenizer::create(std::move(data));
  }
  const json::value config = read_config(folder);
  TokenizerConfigs configs;
  configs.tokenizer_config = config.if_object();
  QUIRE_ASSIGN_OR_RETURN(VocabData data, read_tokenizer_folder(folder, configs));
  return Tokenizer::create(std::move(data));
}

TEST(TokenizerFolder, GivesTheIdsOfEachFilesOwnLibrary) {
  const auto all = read_json_file(kTokenizers / "strings.json", 1U << 24);
  const auto goldens = read_json_file(kTokenizers / "files/ids.json", 1U << 24);
  ASSERT_TRUE(all.ok() && goldens.ok());
  ASSERT_EQ(goldens->as_array().size(), 12U);
  for (const json::value& golden : goldens->as_array()) {
    const std::string name(golden.at("name").as_string());
    const auto tokenizer = open_folder(kTokenizers / "files" / name);
    ASSERT_TRUE(tokenizer.ok()) << name << ": " << tokenizer.status().to_string();
    const json::array& lists = golden.at("ids").as_array();
    ASSERT_GT(lists.size(), 400U);
    int differences = 0;
    for (std::size_t i = 0; i < lists.size(); ++i) {
      if (lists[i].is_null()) continue;  // not compared
      const std::string_view text = all->as_array()[i * kStep].as_string();
      // The tokenizers library looks for special tokens in every text.
      const bool parse_special = golden.get_object().contains("texts");
      const auto ids =
          (*tokenizer)->encode(text, {.add_special_tokens = false, .parse_special = parse_special});
      ASSERT_TRUE(ids.ok()) << ids.status().to_string();
      if (json::value_from(*ids) == lists[i]) continue;
      if (++differences <= 3) {
        ADD_FAILURE() << name << ", string " << i * kStep << ": \"" << text
                      << "\": " << json::serialize(json::value_from(*ids)) << ", expected "
                      << json::serialize(lists[i]);
      }
    }
    EXPECT_EQ(differences, 0) << name;
    const json::value* texts = golden.get_object().if_contains("texts");
    for (std::size_t i = 0; texts != nullptr && i < lists.size(); ++i) {
      if (lists[i].is_null()) continue;
      const auto ids = json::value_to<std::vector<TokenId>>(lists[i]);
      EXPECT_EQ((*tokenizer)->decode(ids), std::string(texts->as_array()[i].as_string()))
          << name << ", string " << i * kStep;
    }
  }
}

TEST(TokenizerFolder, PutsBosAndEosWhereTheFilesSay) {
  const auto ends = [](const char* name) {
    const auto tokenizer = open_folder(kTokenizers / "files" / name);
    return *(*tokenizer)->encode("");
  };
  EXPECT_EQ(ends("spm_bpe"), std::vector<TokenId>{1});         // as Llama has it
  EXPECT_EQ(ends("spm_bytes"), std::vector<TokenId>{});        // add_bos_token: false
  EXPECT_EQ(ends("spm_plain"), (std::vector<TokenId>{1, 2}));  // add_eos_token: true
  EXPECT_EQ(ends("tekken"), std::vector<TokenId>{1});
  EXPECT_EQ(ends("qwen2"), std::vector<TokenId>{});
  const auto qwen = open_folder(kTokenizers / "files/qwen2");
  EXPECT_TRUE((*qwen)->is_eos(*(*qwen)->find("<|endoftext|>")));
  EXPECT_EQ((*qwen)->encode("<|im_start|>", {.parse_special = true})->size(), 1U);
  EXPECT_GT((*qwen)->encode("<|im_start|>")->size(), 1U);
  const auto tekken = open_folder(kTokenizers / "files/tekken");
  EXPECT_EQ((*tekken)->find("<SPECIAL_29>"), 29);
  EXPECT_EQ((*tekken)->decode(std::vector<TokenId>{30 + 'H', 30 + 'i'}), "Hi");
}

TEST(TokenizerFolder, NamesWhatItLookedFor) {
  const testing::TempFolder folder;
  const Status none = open_folder(folder.path()).status();
  EXPECT_EQ(none.code(), StatusCode::kBadModel);
  EXPECT_THAT(none.message(), HasSubstr("tekken.json, tokenizer.model, *.tiktoken"));
  fs::copy(kTokenizers / "files/tiktoken/vocab.tiktoken", folder.path());
  const Status unknown = open_folder(folder.path()).status();
  EXPECT_EQ(unknown.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(unknown.to_string(), HasSubstr("QWenTokenizer"));
}

TEST(SentencePieceModel, RefusesWhatIsNotWhole) {
  const auto bytes = read_file(kTokenizers / "files/spm_bpe/tokenizer.model", 1U << 20);
  ASSERT_TRUE(bytes.ok());
  ASSERT_TRUE(read_sentencepiece_model(*bytes, "f").ok());
  int refused = 0;
  for (std::size_t size = 0; size < bytes->size(); size += 997) {
    refused += read_sentencepiece_model(std::string_view(*bytes).substr(0, size), "f").ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 25);  // some cuts lie between two pieces
  for (const std::string_view damaged :
       {std::string_view("\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"), std::string_view("\x0B"),
        std::string_view("\x0A\x02\x18\x09"), std::string_view("\x80"), std::string_view("")}) {
    EXPECT_EQ(read_sentencepiece_model(damaged, "f").status().code(), StatusCode::kBadModel);
  }
  SentencePieceModel model;
  model.pieces = {"a"};
  model.kind = SentencePieceModel::Kind::kWord;
  EXPECT_THAT(sentencepiece_vocab(model, "f").status().message(), HasSubstr("the kind word"));
}

TEST(ByteRanks, RefusesWhatIsNoList) {
  EXPECT_TRUE(is_tiktoken("IQ== 0\nIg== 1\n"));
  EXPECT_FALSE(is_tiktoken("\x0A\x05hello"));
  EXPECT_TRUE(read_tiktoken("IQ== 0\r\nIg== 1\n", "x", "f").ok());
  for (const char* file : {"", "IQ== 0\nIg== 0\n", "IQ== 1\n", "IQ== x\n", "I= 0\n", "IQ==0\n",
                           " 0\n", "IQ== 999999999999999999999\n", "IQ== 99999999\n", "I!== 0\n"}) {
    EXPECT_EQ(read_tiktoken(file, "x", "f").status().code(), StatusCode::kBadModel) << file;
  }
  for (const char* file : {"[]", "{}", R"({"config": {"pattern": "x", "default_vocab_size": 0,
                       "default_num_special_tokens": 0}, "vocab": []})",
                           R"({"config": {"pattern": "x", "default_vocab_size": 9000000000,
           "default_num_special_tokens": 0}, "vocab": []})",
                           R"({"config": {"pattern": "x", "default_vocab_size": 31,
           "default_num_special_tokens": 30}, "vocab": [{"rank": 1, "token_bytes": "IQ=="}]})",
                           R"({"config": {"pattern": "x", "default_vocab_size": 11,
           "default_num_special_tokens": 10}, "vocab": [{"rank": 0, "token_bytes": "IQ=="}]})"}) {
    const auto value = parse_json(file, "f");
    ASSERT_TRUE(value.ok());
    EXPECT_EQ(read_tekken(*value, "f").status().code(), StatusCode::kBadModel) << file;
  }
}

TEST(AddedTokens, LeaveNoMoreGapsTogetherThanAllowed) {
  VocabData data;
  data.tokens = {"a"};
  data.kinds = {TokenKind::kNormal};
  const auto add = [&](std::size_t id, const std::string& text) {
    AddedToken token;
    token.id = static_cast<TokenId>(id);
    token.content = text;
    return add_token(token, "f", data);
  };
  ASSERT_TRUE(add(1, "b").ok());
  ASSERT_TRUE(add(2 + kMaxUnusedIds / 2, "c").ok());
  EXPECT_EQ(data.num_unused_ids, kMaxUnusedIds / 2);
  ASSERT_TRUE(add(3 + kMaxUnusedIds, "d").ok());
  ASSERT_TRUE(add(4 + kMaxUnusedIds, "e").ok());
  const Status refused = add(6 + kMaxUnusedIds, "f");
  EXPECT_EQ(refused.code(), StatusCode::kBadModel);
  EXPECT_THAT(refused.message(), HasSubstr("far beyond"));
}

}  // namespace
}  // namespace quire
