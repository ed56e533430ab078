// Text out of a model's files in the messages about them: escape sequences, line feeds and hundreds
// of kilobytes come out escaped and bounded, whichever file they were put in and whichever reader
// finds them, and the message still says which file it is about.
#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/printable.h"
#include "engine/chat_input.h"
#include "load/model_bundle.h"
#include "weights/test_support.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
using testing::GgufBuilder;
using ::testing::HasSubstr;
using testing::le;
using ::testing::Not;
using testing::TempFolder;

// Clears a terminal, rings, forges a line of a log, reverses the text behind it, and is long.
std::string hostile() {
  return "\x1b[2J\x1b]0;owned\x07\r\ninfo: all is well\xe2\x80\xae\x7f" + std::string(200'000, 'x');
}

json::value value_of(std::string_view text) { return json::string(text); }

// What every message keeps to; `file` is the one that it is about.
void expect_harmless(const Status& status, std::string_view file) {
  ASSERT_FALSE(status.ok());
  for (const std::string& text : {status.message(), status.remedy()}) {
    EXPECT_EQ(printable(text, Status::kMaxBytes), text) << "raw text in: " << text;
    EXPECT_LE(text.size(), 1000U) << "one piece crowds out the rest";
  }
  EXPECT_THAT(status.message(), HasSubstr(file));
  EXPECT_THAT(status.to_string(), Not(HasSubstr("\n")));
}

// A tiny model in a folder of its own, whose files a test breaks.
class HostileText : public ::testing::Test {
 protected:
  HostileText() {
    const fs::path source = fs::path(QUIRE_SOURCE_DIR) / "tests/data/tiny_llama/hf";
    for (const auto& entry : fs::directory_iterator(source)) {
      fs::copy_file(entry.path(), folder_.path() / entry.path().filename());
    }
  }

  json::object read(const std::string& name) const {
    auto value = read_json_file(folder_.path() / name, 1U << 20);
    EXPECT_TRUE(value.ok());
    return value.ok() && value->is_object() ? value->get_object() : json::object();
  }
  // Sets a key of a JSON file, opens the model and gives the error.
  Status with(const std::string& name, std::string_view key, json::value value) const {
    json::object object = read(name);
    object[key] = std::move(value);
    folder_.write(name, json::serialize(object));
    return open();
  }
  Status open() const { return open_model(folder_.path().string(), "").status(); }
  Status open_gguf(const GgufBuilder& builder, std::size_t data_bytes = 0) const {
    const fs::path file = folder_.write("model.gguf", builder.build(data_bytes));
    return open_model(file.string(), "").status();
  }

  TempFolder folder_;
};

TEST_F(HostileText, TheModelItselfIsFine) { EXPECT_TRUE(open().ok()) << open().to_string(); }

TEST_F(HostileText, OfConfigJson) {
  const json::object before = read("config.json");
  for (const auto& [key, value] : std::vector<std::pair<const char*, json::value>>{
           {"architectures", json::array{value_of(hostile())}},
           {"hidden_act", value_of(hostile())},
           {"rope_scaling", json::object{{"rope_type", value_of(hostile())}, {"factor", 2.0}}},
           {"layer_types", json::array{value_of(hostile()), value_of(hostile())}},
           {"torch_dtype", json::value(1)}}) {
    SCOPED_TRACE(key);
    const bool refused =
        std::string_view(key) != "torch_dtype" && key != std::string_view("layer_types");
    folder_.write("config.json", json::serialize(before));
    const Status status = with("config.json", key, value);
    EXPECT_TRUE(!refused || !status.ok());
    if (!status.ok()) {
      expect_harmless(status, "config.json");
    }
  }
  // A key that is named because its number is beyond all bounds.
  folder_.write("config.json",
                fmt::format("{{{}: 1e999}}", json::serialize(json::string(hostile()))));
  expect_harmless(open(), "config.json");
}

TEST_F(HostileText, OfTokenizerJson) {
  const json::object before = read("tokenizer.json");
  const json::array patterns = {
      json::object{{"type", "Split"},
                   {"pattern", json::object{{"Regex", value_of("(" + hostile())}}},
                   {"behavior", "Isolated"},
                   {"invert", false}},
      json::object{{"type", "Split"},
                   {"pattern", json::object{{"Regex", "a"}}},
                   {"behavior", value_of(hostile())},
                   {"invert", false}},
      json::object{{"type", value_of(hostile())}}};
  for (const json::value& step : patterns) {
    folder_.write("tokenizer.json", json::serialize(before));
    expect_harmless(with("tokenizer.json", "pre_tokenizer", step), "tokenizer.json");
  }
  for (const char* part : {"normalizer", "decoder", "post_processor"}) {
    folder_.write("tokenizer.json", json::serialize(before));
    expect_harmless(with("tokenizer.json", part, json::object{{"type", value_of(hostile())}}),
                    "tokenizer.json");
  }
  folder_.write("tokenizer.json", json::serialize(before));
  json::object model = before.at("model").get_object();
  model["type"] = value_of(hostile());
  expect_harmless(with("tokenizer.json", "model", model), "tokenizer.json");
}

TEST_F(HostileText, OfTokenizerConfigJson) {
  const json::object before = read("tokenizer_config.json");
  expect_harmless(with("tokenizer_config.json", "eos_token", value_of(hostile())),
                  "tokenizer_config.json");
  for (const std::string& source : std::vector<std::string>{
           "{% " + hostile(), "{{ x | " + hostile() + " }}", "{{ '" + hostile(), "{% frob %}"}) {
    folder_.write("tokenizer_config.json", json::serialize(before));
    expect_harmless(with("tokenizer_config.json", "chat_template", value_of(source)),
                    "tokenizer_config.json: chat_template");
  }
}

TEST_F(HostileText, OfTemplatesThatFailWhileTheyRun) {
  for (const std::string source :
       {"{{ raise_exception(messages[0].content) }}", "{{ messages[0][messages[0].content].x }}",
        "{{ namespace()[messages[0].content].x }}", "{{ messages[0].content | int | join }}",
        "{{ '%q' % messages[0].content }}", "{{ ('{' ~ messages[0].content ~ '}').format() }}",
        "{{ '{:' ~ messages[0].content ~ '}' }}{{ ('{:' ~ messages[0].content ~ '}').format(1) }}",
        "{{ [1] | map(messages[0].content) | list }}",
        "{{ [1] | select(messages[0].content) | list }}",
        "{{ dict(**{messages[0].content: 1}).x.y }}",
        "{% macro m() %}{% endmacro %}{{ m(**{messages[0].content: 1}) }}",
        "{{ 'a'.strip(**{messages[0].content: 1}) }}"}) {
    SCOPED_TRACE(source);
    const auto chat_template = ChatTemplate::parse(source, "chat_template.jinja");
    ASSERT_TRUE(chat_template.ok()) << chat_template.status().to_string();
    ChatTemplateInput input;
    input.messages = {json::object{{"role", "user"}, {"content", value_of(hostile())}}};
    const auto rendered = chat_template->render(input);
    expect_harmless(rendered.status(), "chat_template.jinja, line 1");
  }
}

TEST_F(HostileText, OfSafetensors) {
  const std::string name = json::serialize(json::string(hostile()));
  const auto refuse = [&](const std::string& header, std::size_t bytes) {
    fs::remove(folder_.path() / "model.safetensors.index.json");
    for (const char* shard : {"model-00001-of-00002", "model-00002-of-00002"}) {
      fs::remove(folder_.path() / fmt::format("{}.safetensors", shard));
    }
    folder_.write("model.safetensors", testing::safetensors_file(header, bytes));
    expect_harmless(open(), "model.safetensors");
  };
  refuse(fmt::format(R"({{{}:{{"dtype":"F32","shape":[1],"data_offsets":[0,8]}}}})", name), 8);
  refuse(fmt::format(R"({{"a":{{"dtype":{},"shape":[1],"data_offsets":[0,4]}}}})", name), 4);
  refuse(fmt::format(R"({{{0}:{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}},{0}:{{"dtype":)"
                     R"("F32","shape":[1],"data_offsets":[4,8]}}}})",
                     name),
         8);
}

TEST_F(HostileText, OfAnIndexOfShards) {
  json::object map = {{hostile(), "model-00001-of-00002.safetensors"}};
  expect_harmless(with("model.safetensors.index.json", "weight_map", map),
                  "model.safetensors.index.json");
  map = {{"a", value_of(hostile())}};
  expect_harmless(with("model.safetensors.index.json", "weight_map", map),
                  "model.safetensors.index.json");
}

TEST_F(HostileText, OfGguf) {
  const std::string text = hostile();
  const std::string key = text.substr(0, 60'000);
  expect_harmless(open_gguf(GgufBuilder().text("general.architecture", text)), "model.gguf");
  expect_harmless(open_gguf(GgufBuilder().u32(key, 1).u32(key, 1)), "model.gguf");
  expect_harmless(open_gguf(GgufBuilder().key(key, 99, "")), "model.gguf");
  expect_harmless(open_gguf(GgufBuilder().tensor(key, {32}, 0, 0).tensor(key, {32}, 0, 128), 256),
                  "model.gguf");
  expect_harmless(open_gguf(GgufBuilder().tensor(key, {32}, 0, 1U << 20), 128), "model.gguf");
}

TEST_F(HostileText, OfFileNames) {
  const fs::path folder = folder_.path() / "\x1b[31m\nmodel";
  expect_harmless(open_model(folder.string(), "").status(), "\\x1b[31m\\x0amodel");
  fs::create_directory(folder);
  expect_harmless(open_model(folder.string(), "").status(), "\\x1b[31m\\x0amodel");
}

// Whatever a line is made of, it is one line.
TEST(HostileLog, IsEscapedAndBoundedForPeopleAndForPrograms) {
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    ::testing::internal::CaptureStderr();
    init_logging(false, format);
    log_warning("{}", hostile());
    log_event("request", {{"id", value_of(hostile())}, {"tokens", 3}});
    const std::string lines = ::testing::internal::GetCapturedStderr();
    init_logging(false);
    EXPECT_EQ(std::ranges::count(lines, '\n'), 2) << lines.substr(0, 400);
    EXPECT_EQ(lines.find_first_of("\x1b\r\x07\x7f"), std::string::npos);
    EXPECT_EQ(lines.find("\xe2\x80\xae"), std::string::npos);
    EXPECT_LT(lines.size(), 12'000U);
    EXPECT_THAT(lines, HasSubstr("tokens"));
  }
}

// A template that is wrong is looked for in the file that holds it.
TEST_F(HostileText, AWrongTemplateNamesItsOwnFile) {
  const std::string wrong = "line one\n{% frobnicate %}";
  expect_harmless(with("tokenizer_config.json", "chat_template", value_of(wrong)),
                  "tokenizer_config.json: chat_template, line 2");
  expect_harmless(
      with("tokenizer_config.json", "chat_template",
           json::array{json::object{{"name", "default"}, {"template", value_of(wrong)}}}),
      "tokenizer_config.json: chat_template \"default\", line 2");
  folder_.write("chat_template.jinja", wrong);  // wins over the key
  expect_harmless(open(), "chat_template.jinja, line 2");

  TextBundle bundle;
  const fs::path other = folder_.write("other.jinja", wrong);
  expect_harmless(replace_chat_template(bundle, other.string()), "other.jinja, line 2");
}

GgufBuilder tokenizer_keys() {
  std::string tokens;
  std::string scores;
  for (const char* token : {"<unk>", "<s>", "</s>", "a"}) {
    tokens += GgufBuilder::string(token);
    scores += le<float>(0);
  }
  GgufBuilder builder;
  builder.text("tokenizer.ggml.model", "llama")
      .array("tokenizer.ggml.tokens", GgufType::kString, 4, tokens)
      .array("tokenizer.ggml.scores", GgufType::kF32, 4, scores);
  return builder;
}

TEST(GgufTokenizer, IdsBeyondTheVocabularyAreRefused) {
  const TempFolder folder;
  const auto opened = [&](const GgufBuilder& builder) {
    return open_text(folder.write("model.gguf", builder.build()).string()).status();
  };
  EXPECT_TRUE(opened(tokenizer_keys()).ok()) << opened(tokenizer_keys()).to_string();
  for (const char* name : {"bos", "eos", "eot", "eom", "unknown", "padding", "seperator", "cls",
                           "mask", "fim_pre", "fim_suf", "fim_mid"}) {
    const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
    EXPECT_TRUE(opened(tokenizer_keys().u32(key, 3)).ok()) << key;
    for (const std::uint32_t id : {4U, 1U << 31U, 0xffffffffU}) {
      const Status status = opened(tokenizer_keys().u32(key, id));
      ASSERT_FALSE(status.ok()) << key << " " << id;
      EXPECT_EQ(status.code(), StatusCode::kBadModel);
      EXPECT_THAT(status.message(), HasSubstr(key));
      EXPECT_THAT(status.message(), HasSubstr("outside the vocabulary of 4 tokens"));
    }
  }
}

// How far merges go, by what the file says of the words that they stay within.
TEST(GgufTokenizer, PreTokenizersByTheirNames) {
  using Ids = std::vector<TokenId>;
  const TempFolder folder;
  const auto encoded = [&](std::string_view pre, std::string_view input) {
    std::string tokens;
    for (const char* token : {"1", "2", "a", ".", "12", "a.", "11"}) {
      tokens += GgufBuilder::string(token);
    }
    std::string merges;
    for (const char* merge : {"1 2", "a .", "1 1"}) merges += GgufBuilder::string(merge);
    GgufBuilder builder;
    builder.text("tokenizer.ggml.model", "gpt2")
        .text("tokenizer.ggml.pre", pre)
        .array("tokenizer.ggml.tokens", GgufType::kString, 7, tokens)
        .array("tokenizer.ggml.merges", GgufType::kString, 3, merges);
    auto text = open_text(folder.write(std::string(pre) + ".gguf", builder.build()).string());
    EXPECT_TRUE(text.ok()) << text.status().to_string();
    if (!text.ok()) return Ids();
    auto ids = text->tokenizer->encode(input, EncodeOptions());
    EXPECT_TRUE(ids.ok()) << ids.status().to_string();
    return ids.ok() ? *std::move(ids) : Ids();
  };
  for (const auto& [pre, digits] : {std::pair{"exaone4", Ids{6, 6}},
                                    {"glm4", Ids{6, 0, 0}},
                                    {"chatglm-bpe", Ids{6, 0, 0}},
                                    {"minimax-m2", Ids{6, 0, 0}},
                                    {"seed-coder", Ids{0, 0, 0, 0}},
                                    {"bloom", Ids{6, 6}}}) {
    EXPECT_EQ(encoded(pre, "1111"), digits) << pre;
    EXPECT_EQ(encoded(pre, "a."), (Ids{2, 3})) << pre;
  }
}

TEST(GgufTokenizer, TypesAndMergesThatDoNotFitTheVocabularyAreRefused) {
  const TempFolder folder;
  const auto opened = [&](const GgufBuilder& builder) {
    return open_text(folder.write("model.gguf", builder.build()).string()).status();
  };
  GgufBuilder types = tokenizer_keys();
  types.array("tokenizer.ggml.token_type", GgufType::kI32, 5, std::string(20, '\x01'));
  EXPECT_THAT(opened(types).message(), HasSubstr("5 types for 4 tokens"));

  GgufBuilder merges;
  std::string tokens;
  for (const char* token : {"a", "b", "ab"}) tokens += GgufBuilder::string(token);
  merges.text("tokenizer.ggml.model", "gpt2")
      .text("tokenizer.ggml.pre", "gpt-2")
      .array("tokenizer.ggml.tokens", GgufType::kString, 3, tokens)
      .array("tokenizer.ggml.merges", GgufType::kString, 2,
             GgufBuilder::string("a b") + GgufBuilder::string("ab c"));
  EXPECT_THAT(opened(merges).message(), HasSubstr("merge 1 has a part or a result"));
}

}  // namespace
}  // namespace quire
