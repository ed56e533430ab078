// Split GGUF models: what their parts give together, and every way in which they do not fit.
#include "weights/gguf_split.h"

#include <gtest/gtest.h>

#include "weights/gguf.h"
#include "weights/model_files.h"
#include "weights/test_support.h"

namespace quire {
namespace gguf_split_test {

using testing::expect_error;
using testing::GgufBuilder;
using testing::le;
using testing::TempFolder;

// Part `number` (from 1 on) with a tensor of 16 floats called t1, t2, ...
GgufBuilder part(int number, int count, int tensors = 3) {
  GgufBuilder builder;
  if (number == 1) builder.text("general.architecture", "llama");
  builder.key("split.no", GgufType::kU16, le(static_cast<std::uint16_t>(number - 1)))
      .key("split.count", GgufType::kU16, le(static_cast<std::uint16_t>(count)))
      .key("split.tensors.count", GgufType::kI32, le(static_cast<std::int32_t>(tensors)));
  return builder.tensor("t" + std::to_string(number), {16}, 0, 0);
}

std::string name_of(int number, int count) {
  return fmt::format("m-{:05}-of-{:05}.gguf", number, count);
}

// Three parts; returns the path of the first.
std::filesystem::path write_parts(const TempFolder& folder) {
  for (const int number : {2, 3}) folder.write(name_of(number, 3), part(number, 3).build(64));
  return folder.write(name_of(1, 3), part(1, 3).build(64));
}

TEST(GgufSplit, FirstPartOpensAll) {
  const TempFolder folder;
  const auto file = GgufFile::open(write_parts(folder));
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ((*file)->get_string("general.architecture").value(), "llama");
  ASSERT_EQ((*file)->tensors().size(), 3U);
  ASSERT_EQ((*file)->files().size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const TensorInfo* tensor = (*file)->find("t" + std::to_string(i + 1));
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->data.size(), 64U);
    EXPECT_EQ(tensor->file, (folder.path() / name_of(static_cast<int>(i) + 1, 3)).string());
    EXPECT_TRUE((*file)->files()[i]->contains(tensor->data.data()));
    (*file)->release(tensor->data);
    EXPECT_EQ(tensor->data[0], 1);
  }
}

TEST(GgufSplit, FolderOfPartsIsOneModel) {
  const TempFolder folder;
  const auto first = write_parts(folder);
  const auto found = find_model_files(folder.path());
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(found->path, first);
  folder.write("other.gguf", "");
  expect_error(find_model_files(folder.path()), StatusCode::kInvalidArgument,
               {"holds 2 GGUF files: m-00001-of-00003.gguf, other.gguf"});
}

TEST(GgufSplit, OnePartOfOneIsAWholeFile) {
  const TempFolder folder;
  EXPECT_TRUE(GgufFile::open(folder.write("whole.gguf", part(1, 1, 1).build(64))).ok());
}

TEST(GgufSplit, MissingPartIsNamed) {
  const TempFolder folder;
  const auto first = write_parts(folder);
  std::filesystem::remove(folder.path() / name_of(3, 3));
  expect_error(GgufFile::open(first), StatusCode::kNotFound,
               {"part 3 of 3 of the model is missing", name_of(3, 3), "one folder"});
}

TEST(GgufSplit, AnotherPartThanTheFirstNamesIt) {
  const TempFolder folder;
  write_parts(folder);
  expect_error(GgufFile::open(folder.path() / name_of(2, 3)), StatusCode::kInvalidArgument,
               {"part 2 of 3", "open the first part", name_of(1, 3)});
}

TEST(GgufSplit, NameMustSayWhichPartItIs) {
  const TempFolder folder;
  write_parts(folder);
  for (const char* name : {"m.gguf", "m-00001-of-00004.gguf", "m-00002-of-00003.gguf"}) {
    const auto path = folder.write(name, part(1, 3).build(64));
    expect_error(GgufFile::open(path), StatusCode::kBadModel,
                 {"part 1 of 3", "expected NAME-00001-of-00003.gguf"});
  }
}

TEST(GgufSplit, PartsOfAnotherModelAreRefused) {
  const TempFolder folder;
  const auto first = write_parts(folder);
  const auto with_second = [&](const std::string& file) {
    folder.write(name_of(2, 3), file);
    return GgufFile::open(first);
  };
  expect_error(with_second(part(2, 4).build(64)), StatusCode::kBadModel,
               {name_of(2, 3), "expected part 2 of 3, found part 2 of 4"});
  expect_error(with_second(part(3, 3).build(64)), StatusCode::kBadModel,
               {"expected part 2 of 3, found part 3 of 3"});
  expect_error(with_second(GgufBuilder().build()), StatusCode::kBadModel, {"found part 1 of 1"});
  expect_error(with_second(part(2, 3).build(60)), StatusCode::kBadModel, {name_of(2, 3), "t2"});
  expect_error(with_second("GGUF"), StatusCode::kBadModel, {name_of(2, 3), "truncated"});
  expect_error(with_second(part(2, 3).tensor("t4", {1}, 0, 64).build(96)), StatusCode::kBadModel,
               {"split.tensors.count = 3, but the 3 parts have 4"});
  GgufBuilder twice;
  twice.key("split.no", GgufType::kU16, le<std::uint16_t>(1))
      .key("split.count", GgufType::kU16, le<std::uint16_t>(3))
      .tensor("t1", {16}, 0, 0);
  expect_error(with_second(twice.build(64)), StatusCode::kBadModel,
               {name_of(2, 3), "the tensor t1 appears twice"});
}

TEST(GgufSplit, KeysThatMakeNoSenseAreRefused) {
  const auto open = [](const std::string& index, const std::string& count) {
    const TempFolder folder;
    GgufBuilder builder;
    if (!index.empty()) builder.key("split.no", GgufType::kI32, index);
    builder.key("split.count", GgufType::kI32, count);
    return GgufFile::open(folder.write(name_of(1, 3), builder.build()));
  };
  expect_error(open("", le(3)), StatusCode::kBadModel, {"split.no = absent", "split.count = 3"});
  expect_error(open(le(3), le(3)), StatusCode::kBadModel, {"split.no = 3"});
  expect_error(open(le(-1), le(3)), StatusCode::kBadModel, {"split.no = -1"});
  expect_error(open(le(0), le(100'000)), StatusCode::kBadModel, {"at most 1000 parts"});
}

TEST(GgufSplit, NamesOfParts) {
  const auto part_of = [](const char* name) { return gguf_part_of_name(name); };
  ASSERT_TRUE(part_of("a/b-00002-of-00012.gguf").has_value());
  EXPECT_EQ(part_of("a/b-00002-of-00012.gguf")->number, 2);
  EXPECT_EQ(part_of("a/b-00002-of-00012.gguf")->count, 12);
  EXPECT_EQ(other_gguf_part("a/b-00002-of-00012.gguf", 11), "a/b-00011-of-00012.gguf");
  for (const char* name :
       {"b.gguf", "-00001-of-00002.gguf", "b-0001-of-0002.gguf", "b-00000-of-00002.gguf",
        "b-00003-of-00002.gguf", "b-0000x-of-00002.gguf", "b-00001-of-00002.bin"}) {
    EXPECT_FALSE(part_of(name).has_value()) << name;
  }
}

}  // namespace gguf_split_test
}  // namespace quire
