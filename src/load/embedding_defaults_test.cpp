#include "load/embedding_defaults.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weights/gguf.h"
#include "weights/test_support.h"

namespace quire {
namespace {

using quire::testing::bytes_of;
using quire::testing::GgufBuilder;
using quire::testing::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kTransformer =
    R"({"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"})";
constexpr std::string_view kPooling =
    R"({"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"})";
constexpr std::string_view kNormalize =
    R"({"idx": 2, "name": "2", "path": "2_Normalize",
        "type": "sentence_transformers.models.Normalize"})";

// What a folder of these modules says, whose Pooling module has this configuration.
EmbeddingDefaults read(const std::vector<std::string_view>& modules, std::string_view pooling) {
  const TempFolder folder;
  std::filesystem::create_directory(folder.path() / "1_Pooling");
  folder.write("1_Pooling/config.json", pooling);
  ModelFiles files;
  files.path = folder.path();
  files.modules = folder.write("modules.json", fmt::format("[{}]", fmt::join(modules, ",")));
  EmbeddingDefaults defaults = read_embedding_defaults(files);
  // What a client is told names no folder of the server.
  EXPECT_THAT(defaults.check().to_string(), Not(HasSubstr(folder.path().string())));
  return defaults;
}
EmbeddingDefaults read(std::string_view pooling) { return read({kTransformer, kPooling}, pooling); }

TEST(EmbeddingDefaults, AFolderThatSaysNothingPoolsTheLastTokenAndNormalizes) {
  const EmbeddingDefaults defaults = read_embedding_defaults(ModelFiles());
  EXPECT_EQ(defaults.pooling, Pooling::kLast);
  EXPECT_TRUE(defaults.normalize);
  EXPECT_TRUE(defaults.source.empty());
  EXPECT_TRUE(defaults.check().ok());
}

TEST(EmbeddingDefaults, KeysThatAreTrueAndFalse) {
  const std::vector<std::pair<std::string, Pooling>> known = {
      {"pooling_mode_cls_token", Pooling::kCls},
      {"pooling_mode_mean_tokens", Pooling::kMean},
      {"pooling_mode_lasttoken", Pooling::kLast}};
  for (const auto& [key, pooling] : known) {
    std::string config = R"({"word_embedding_dimension": 8, "pooling_mode_max_tokens": false)";
    for (const auto& [other, unused] : known) {
      config += fmt::format(R"(, "{}": {})", other, other == key);
    }
    const EmbeddingDefaults defaults = read(config + ", \"include_prompt\": true}");
    EXPECT_TRUE(defaults.check().ok()) << defaults.check().to_string();
    EXPECT_EQ(defaults.pooling, pooling) << key;
    EXPECT_EQ(defaults.source, "1_Pooling/config.json");
  }
  EXPECT_EQ(read("{}").pooling, Pooling::kMean);  // the library's own default
}

TEST(EmbeddingDefaults, OneStringAsNewerFilesHaveIt) {
  const auto pooling = [](std::string_view mode) {
    const EmbeddingDefaults defaults = read(fmt::format(R"({{"pooling_mode": {}}})", mode));
    EXPECT_TRUE(defaults.check().ok()) << defaults.check().to_string();
    return defaults.pooling;
  };
  EXPECT_EQ(pooling(R"("cls")"), Pooling::kCls);
  EXPECT_EQ(pooling(R"("mean")"), Pooling::kMean);
  EXPECT_EQ(pooling(R"("lasttoken")"), Pooling::kLast);
  EXPECT_EQ(pooling(R"(["lasttoken"])"), Pooling::kLast);
  // It goes before the keys.
  EXPECT_EQ(read(R"({"pooling_mode": "cls", "pooling_mode_mean_tokens": true})").pooling,
            Pooling::kCls);
}

TEST(EmbeddingDefaults, WaysToPoolThatAreMissingAreNamed) {
  const auto refused = [](std::string_view config, std::string_view what) {
    const EmbeddingDefaults defaults = read(config);
    EXPECT_EQ(defaults.check().code(), StatusCode::kConfig) << config;
    EXPECT_THAT(defaults.check().to_string(),
                AllOf(HasSubstr("1_Pooling/config.json"), HasSubstr(std::string(what)),
                      HasSubstr("--pooling-type")));
    EXPECT_TRUE(defaults.error.ok()) << "another pooling may be asked for";
  };
  for (const std::string key : {"pooling_mode_max_tokens", "pooling_mode_mean_sqrt_len_tokens",
                                "pooling_mode_weightedmean_tokens"}) {
    refused(fmt::format(R"({{"{}": true}})", key), key);
  }
  refused(R"({"pooling_mode": "max"})", "pooling_mode max");
  refused(R"({"pooling_mode": "median"})", "pooling_mode median: no such kind");
  refused(R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true})", "(cls, mean)");
  refused(R"({"pooling_mode": ["mean", "max"]})", "(mean, max)");
}

TEST(EmbeddingDefaults, FilesThatAreNoneAreNamed) {
  const auto message = [](const EmbeddingDefaults& defaults) {
    EXPECT_EQ(defaults.check().code(), StatusCode::kConfig);
    return defaults.check().message();
  };
  EXPECT_THAT(message(read("{")), HasSubstr("1_Pooling/config.json"));
  EXPECT_THAT(message(read("[]")), HasSubstr("1_Pooling/config.json: expected an object"));
  EXPECT_THAT(message(read(R"({"pooling_mode": 3})")), HasSubstr("pooling_mode: expected"));
  EXPECT_THAT(message(read(R"({"pooling_mode_cls_token": "yes"})")),
              HasSubstr("pooling_mode_cls_token: expected"));
  EXPECT_THAT(message(read({"3"}, "{}")), HasSubstr("modules.json"));
  EXPECT_THAT(message(read({"{}"}, "{}")), HasSubstr("modules.json: the key \"type\" is missing"));
  EXPECT_THAT(message(read({R"({"type": "a.Pooling", "path": "2_Pooling"})"}, "{}")),
              HasSubstr("2_Pooling/config.json: not found"));
  for (const std::string path : {"../other", "/etc", "a/../../b"}) {
    EXPECT_THAT(
        message(read({fmt::format(R"({{"type": "a.Pooling", "path": "{}"}})", path)}, "{}")),
        HasSubstr("not below the model's folder"))
        << path;
  }
}

TEST(EmbeddingDefaults, Modules) {
  const EmbeddingDefaults scaled = read({kTransformer, kPooling, kNormalize}, "{}");
  EXPECT_TRUE(scaled.check().ok());
  EXPECT_TRUE(scaled.normalize);
  EXPECT_FALSE(read({kTransformer, kPooling}, "{}").normalize);

  // Releases have their modules in other places.
  const EmbeddingDefaults newer =
      read({R"({"path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"})",
            R"({"path": "1_Pooling",
           "type": "sentence_transformers.sentence_transformer.modules.pooling.Pooling"})",
            R"({"path": "2_Normalize",
           "type": "sentence_transformers.sentence_transformer.modules.normalize.Normalize"})"},
           R"({"pooling_mode": "lasttoken"})");
  EXPECT_TRUE(newer.check().ok());
  EXPECT_TRUE(newer.normalize);
  EXPECT_EQ(newer.pooling, Pooling::kLast);

  for (const std::string type : {"Dense", "LayerNorm", "SpladePooling", "WeightedLayerPooling"}) {
    const std::string module =
        fmt::format(R"({{"path": "2_X", "type": "sentence_transformers.models.{}"}})", type);
    const EmbeddingDefaults refused = read({kTransformer, kPooling, module}, "{}");
    EXPECT_EQ(refused.error.code(), StatusCode::kConfig) << "no pooling makes up for it";
    EXPECT_THAT(refused.error.message(), AllOf(HasSubstr("modules.json"), HasSubstr(type)));
  }
  EXPECT_THAT(read({kTransformer, kPooling, kPooling}, "{}").error.message(),
              HasSubstr("models.Pooling"));
  const EmbeddingDefaults none = read({kTransformer}, "{}");
  EXPECT_TRUE(none.error.ok());
  EXPECT_THAT(none.pooling_error.message(), HasSubstr("modules.json: there is no module Pooling"));
}

EmbeddingDefaults read_gguf(const GgufBuilder& builder) {
  const std::string bytes = builder.build();
  const auto file = GgufFile::parse(bytes_of(bytes), "test.gguf");
  EXPECT_TRUE(file.ok()) << file.status().to_string();
  return file.ok() ? read_embedding_defaults(**file) : EmbeddingDefaults();
}
EmbeddingDefaults read_gguf(std::uint32_t pooling_type) {
  return read_gguf(GgufBuilder()
                       .text("general.architecture", "qwen3")
                       .u32("llama.pooling_type", 1)  // another's
                       .u32("qwen3.pooling_type", pooling_type));
}

TEST(EmbeddingDefaults, OfGguf) {
  EXPECT_EQ(read_gguf(1).pooling, Pooling::kMean);
  EXPECT_EQ(read_gguf(2).pooling, Pooling::kCls);
  EXPECT_EQ(read_gguf(3).pooling, Pooling::kLast);
  EXPECT_TRUE(read_gguf(3).check().ok());
  EXPECT_TRUE(read_gguf(3).normalize);
  EXPECT_EQ(read_gguf(3).source, "qwen3.pooling_type");
  for (const auto& [number, name] : std::vector<std::pair<std::uint32_t, std::string>>{
           {0, "0 (none)"}, {4, "4 (rank)"}, {9, "9"}}) {
    const Status status = read_gguf(number).check();
    EXPECT_EQ(status.code(), StatusCode::kConfig);
    EXPECT_THAT(status.to_string(),
                AllOf(HasSubstr("qwen3.pooling_type is " + name), HasSubstr("--pooling-type")));
    EXPECT_TRUE(read_gguf(number).error.ok());
  }
  const EmbeddingDefaults text = read_gguf(
      GgufBuilder().text("general.architecture", "llama").text("llama.pooling_type", "mean"));
  EXPECT_THAT(text.pooling_error.message(), HasSubstr("llama.pooling_type: expected a number"));
  const EmbeddingDefaults none = read_gguf(GgufBuilder().text("general.architecture", "llama"));
  EXPECT_EQ(none.pooling, Pooling::kLast);
  EXPECT_TRUE(none.check().ok());
  EXPECT_TRUE(none.source.empty());
}

}  // namespace
}  // namespace quire
