// 5,200 strings of many scripts through every step of tokenizer.json that Quire reads, and through
// real vocabularies: ids and decoded text as the tokenizers library gives them, 0 differences
// (scripts/goldens/tokenizer.py; that library takes valid UTF-8 only, and so are these strings).
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "load/model_bundle.h"
#include "load/tokenizer_json.h"
#include "support/test_models.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace quire::test {
namespace {

const std::string kData = QUIRE_SOURCE_DIR "/tests/data/tokenizers/";

json::value read_or_fail(const std::string& name) {
  auto value = read_json_file(kData + name, 1U << 24);
  EXPECT_TRUE(value.ok()) << value.status().to_string();
  return value.ok() ? *std::move(value) : json::value();
}

std::vector<std::string> read_strings() {
  std::vector<std::string> strings;
  const json::value array = read_or_fail("strings.json");
  for (const json::value& text : array.as_array()) {
    strings.emplace_back(text.as_string());
  }
  return strings;
}

// Two bytes for each string, little-endian.
std::uint16_t golden_hash(const std::string& hashes, std::size_t index) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(hashes.at(at)); };
  return static_cast<std::uint16_t>(byte(2 * index) | (byte(2 * index + 1) << 8));
}

// FNV-1a over ids and texts, folded to 16 bits.
class Hash {
 public:
  void add(TokenId id) {
    for (int shift = 0; shift < 32; shift += 8) {
      add_byte(static_cast<unsigned char>(static_cast<std::uint32_t>(id) >> shift));
    }
  }
  void add(std::string_view text) {
    for (const char c : text) add_byte(static_cast<unsigned char>(c));
    add_byte(0);
  }
  std::uint16_t value() const { return static_cast<std::uint16_t>(value_ ^ (value_ >> 16)); }

 private:
  void add_byte(unsigned char byte) { value_ = (value_ ^ byte) * 0x01000193U; }
  std::uint32_t value_ = 0x811C9DC5U;
};

std::string show(const std::vector<TokenId>& ids, const Tokenizer& tokenizer) {
  std::string out;
  for (const TokenId id : ids) {
    out += std::to_string(id) + "(" + std::string(tokenizer.token_text(id)) + ") ";
  }
  return out;
}

// The text of `ids` piece by piece, as a stream gets it.
std::string decode_by_pieces(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  Detokenizer detokenizer(tokenizer, /*skip_special_tokens=*/true);
  std::string text;
  for (const TokenId id : ids) text += detokenizer.add(id);
  return text + detokenizer.flush();
}

// Compares all strings; `first` is the index of the first one's hash.
void compare(const std::string& name, const Tokenizer& tokenizer,
             const std::vector<std::string>& strings, const std::string& hashes, std::size_t first,
             const json::value& samples, bool add_special_tokens) {
  const EncodeOptions options = {.add_special_tokens = add_special_tokens, .parse_special = true};
  for (const json::value& sample : samples.as_array()) {
    const auto index = static_cast<std::size_t>(sample.as_array().at(0).as_int64());
    std::vector<TokenId> expected;
    for (const json::value& id : sample.as_array().at(1).as_array()) {
      expected.push_back(static_cast<TokenId>(id.as_int64()));
    }
    const auto ids = tokenizer.encode(strings.at(index), options);
    ASSERT_TRUE(ids.ok()) << name << ": " << ids.status().to_string();
    EXPECT_EQ(*ids, expected) << name << ": \"" << strings[index] << "\": " << show(*ids, tokenizer)
                              << "\nexpected " << show(expected, tokenizer);
  }
  int differences = 0;
  for (std::size_t i = 0; i < strings.size(); ++i) {
    const auto ids = tokenizer.encode(strings[i], options);
    ASSERT_TRUE(ids.ok()) << name << ": " << ids.status().to_string();
    const std::string text = tokenizer.decode(*ids);
    EXPECT_EQ(decode_by_pieces(tokenizer, *ids), text) << name << ", string " << i;
    Hash hash;
    for (const TokenId id : *ids) hash.add(id);
    hash.add(tokenizer.decode(*ids, /*skip_special_tokens=*/false));
    hash.add(text);
    const std::uint16_t golden = golden_hash(hashes, first + i);
    if (golden == 0 || hash.value() == golden) continue;  // 0: not compared
    if (++differences <= 3) {
      ADD_FAILURE() << name << ", string " << i << ": \"" << strings[i]
                    << "\": " << show(*ids, tokenizer) << "\ndecoded: \"" << text << "\"";
    }
  }
  EXPECT_EQ(differences, 0) << name;
}

TEST(TokenizerGolden, EveryPipelineGivesTheReferencesIdsAndText) {
  const std::vector<std::string> strings = read_strings();
  ASSERT_GE(strings.size(), 5000U);
  const auto hashes = read_file(kData + "pipelines.bin", 1U << 24);
  ASSERT_TRUE(hashes.ok());
  const json::object bases{{"bytes", read_or_fail("bytes.json")},
                           {"characters", read_or_fail("characters.json")}};
  const json::value pipelines = read_or_fail("pipelines.json");
  ASSERT_EQ(hashes->size(), 2 * strings.size() * pipelines.as_array().size());
  std::size_t first = 0;
  for (const json::value& pipeline : pipelines.as_array()) {
    const std::string name(pipeline.at("name").as_string());
    json::object definition = pipeline.at("tokenizer").as_object();
    json::object model = pipeline.at("model").as_object();
    const json::value& base = bases.at(pipeline.at("base").as_string());
    model["vocab"] = base.at("vocab");
    model["merges"] = base.at("merges");
    definition["model"] = std::move(model);
    auto data = read_tokenizer_json(std::move(definition), nullptr, nullptr, nullptr, name);
    ASSERT_TRUE(data.ok()) << name << ": " << data.status().to_string();
    auto tokenizer = Tokenizer::create(std::move(*data));
    ASSERT_TRUE(tokenizer.ok()) << name << ": " << tokenizer.status().to_string();
    compare(name, **tokenizer, strings, *hashes, first, pipeline.at("samples"),
            /*add_special_tokens=*/true);
    first += strings.size();
  }
}

TEST(TokenizerGolden, RealVocabulariesGiveTheReferencesIdsAndText) {
  const std::vector<std::string> strings = read_strings();
  const auto hashes = read_file(kData + "ggml.bin", 1U << 24);
  ASSERT_TRUE(hashes.ok());
  const json::value vocabularies = read_or_fail("ggml.json");
  ASSERT_EQ(hashes->size(), 2 * strings.size() * vocabularies.as_array().size());
  std::size_t first = 0;
  for (const json::value& vocabulary : vocabularies.as_array()) {
    const std::string file(vocabulary.at("file").as_string());
    const bool is_smollm2 = file.starts_with("SmolLM2");
    const std::string path =
        is_smollm2 ? smollm2() : QUIRE_SOURCE_DIR "/../shared/data/tokenizers/" + file;
    QUIRE_REQUIRE_FILE(path);
    auto text = open_text(path);
    ASSERT_TRUE(text.ok()) << text.status().to_string();
    compare(file, *text->tokenizer, strings, *hashes, first, vocabulary.at("samples"),
            /*add_special_tokens=*/false);
    first += strings.size();
  }
}

}  // namespace
}  // namespace quire::test
