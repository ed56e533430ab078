#include "weights/model_files.h"

#include "weights/test_support.h"

namespace quire {
namespace {

using testing::expect_error;
using testing::TempFolder;

TEST(ModelFiles, FindsHuggingFaceFolder) {
  const std::filesystem::path folder = QUIRE_SOURCE_DIR "/tests/data/tiny_llama/hf";
  const auto found = find_model_files(folder);
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(found->kind, ModelFiles::Kind::kHuggingFace);
  EXPECT_EQ(found->path, folder);
  EXPECT_EQ(found->config, folder / "config.json");
  EXPECT_EQ(found->generation_config, folder / "generation_config.json");
  EXPECT_EQ(found->tokenizer, folder / "tokenizer.json");
  EXPECT_EQ(found->tokenizer_config, folder / "tokenizer_config.json");
  EXPECT_FALSE(found->chat_template.has_value());
}

TEST(ModelFiles, FindsEveryFileOfAFolder) {
  const TempFolder folder;
  for (const char* name : {"model.safetensors", "config.json", "chat_template.jinja"}) {
    folder.write(name, "");
  }
  const auto found = find_model_files(folder.path());
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(found->chat_template, folder.path() / "chat_template.jinja");
  EXPECT_FALSE(found->tokenizer.has_value());
}

TEST(ModelFiles, FindsGgufByPathAndAloneInAFolder) {
  const TempFolder folder;
  const auto file = folder.write("m.gguf", "");
  folder.write("config.json", "{}");
  folder.write("README.md", "");
  for (const auto& path : {file, folder.path()}) {
    const auto found = find_model_files(path);
    ASSERT_TRUE(found.ok()) << found.status().to_string();
    EXPECT_EQ(found->kind, ModelFiles::Kind::kGguf);
    EXPECT_EQ(found->path, file);
    EXPECT_FALSE(found->config.has_value());
  }
}

TEST(ModelFiles, FindsGgufUnderAnotherName) {
  const TempFolder folder;
  const auto file = folder.write("0123abcd", testing::GgufBuilder().build());
  const auto found = find_model_files(file);
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(found->kind, ModelFiles::Kind::kGguf);
}

TEST(ModelFiles, SafetensorsGoBeforeGguf) {
  const TempFolder folder;
  for (const char* name : {"model.safetensors", "config.json", "m.gguf"}) folder.write(name, "");
  const auto found = find_model_files(folder.path());
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(found->kind, ModelFiles::Kind::kHuggingFace);
}

TEST(ModelFiles, MissingPathIsNotFound) {
  expect_error(find_model_files("/nowhere/model"), StatusCode::kNotFound,
               {"no file or folder /nowhere/model", "check the path"});
}

TEST(ModelFiles, FolderWithoutModelListsWhatItLookedFor) {
  const TempFolder folder;
  folder.write("config.json", "{}");
  expect_error(find_model_files(folder.path()), StatusCode::kNotFound,
               {folder.path().string() + " holds no model", "model.safetensors",
                "model.safetensors.index.json", "*.gguf"});
}

TEST(ModelFiles, FolderWithoutConfigIsRefused) {
  const TempFolder folder;
  folder.write("model.safetensors", "");
  expect_error(find_model_files(folder.path()), StatusCode::kNotFound, {"no config.json"});
}

TEST(ModelFiles, PicklesOnlyAreRefused) {
  for (const char* name : {"pytorch_model.bin", "consolidated.00.pth", "model.pt", "model.ckpt"}) {
    const TempFolder folder;
    const auto file = folder.write(name, "");
    folder.write("config.json", "{}");
    for (const auto& path : {file, folder.path()}) {
      expect_error(find_model_files(path), StatusCode::kBadModel,
                   {std::string(name) + " is a pickle", "safetensors"});
    }
  }
}

TEST(ModelFiles, SeveralGgufsAreListed) {
  const TempFolder folder;
  folder.write("m-q8_0.gguf", "");
  folder.write("m-q4_1.gguf", "");
  expect_error(find_model_files(folder.path()), StatusCode::kInvalidArgument,
               {"holds 2 GGUF files: m-q4_1.gguf, m-q8_0.gguf", "one of them"});
}

TEST(ModelFiles, FileOfAnotherKindIsNamed) {
  const TempFolder folder;
  const auto safetensors = folder.write("model.safetensors", testing::safetensors_file("{}", 0));
  expect_error(find_model_files(safetensors), StatusCode::kBadModel,
               {"expected a model folder or a GGUF file, found a safetensors file",
                "give the path of its folder"});
  expect_error(find_model_files(folder.write("config.json", "{}")), StatusCode::kBadModel,
               {"found a JSON text"});
  expect_error(find_model_files(folder.write("empty", "")), StatusCode::kBadModel,
               {"bytes of an unknown kind"});
}

TEST(ModelFiles, DeviceIsRefused) {
  expect_error(find_model_files("/dev/null"), StatusCode::kIoError, {"/dev/null", "neither"});
}

}  // namespace
}  // namespace quire
