// Files of packed weights: what was written is read; what is damaged, cut off or of another kind is
// refused by name; and writers do not meet.
#include "weights/packed_file.h"

#include <numeric>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weights/test_support.h"

namespace quire {
namespace {

using testing::bytes_of;
using ::testing::HasSubstr;
using testing::TempFolder;

std::vector<std::uint8_t> numbers(std::size_t count, std::uint8_t first) {
  std::vector<std::uint8_t> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

class PackedFileTest : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return folder_.path() / "weights.packed"; }
  std::filesystem::path partial() const { return folder_.path() / "weights.packed.partial"; }

  void write(const std::string& key) {
    auto writer = PackedFileWriter::create(path(), key);
    ASSERT_TRUE(writer.ok()) << writer.status().to_string();
    ASSERT_TRUE(writer->add({"first", "bf16", 16, 40, small_}, pool_).ok());
    ASSERT_TRUE(writer->add({"second", "int8_row", 3, 5, large_}, pool_).ok());
    ASSERT_TRUE(writer->commit().ok());
    EXPECT_EQ(writer->size_bytes(), std::filesystem::file_size(path()));
  }

  std::string contents() const {
    auto text = read_file(path(), 1U << 30);
    return text.ok() ? *std::move(text) : std::string();
  }

  void expect_refused(const std::string& bytes, const std::string& message) {
    const std::string name = folder_.write("bad.packed", bytes).string();
    const auto file = PackedFile::open(name, pool_);
    ASSERT_FALSE(file.ok()) << message;
    EXPECT_EQ(file.status().code(), StatusCode::kBadModel);
    EXPECT_THAT(file.status().message(), HasSubstr(name));
    EXPECT_THAT(file.status().message(), HasSubstr(message));
  }

  TempFolder folder_;
  ThreadPool pool_{2};
  std::vector<std::uint8_t> small_ = numbers(100, 1);
  std::vector<std::uint8_t> large_ = numbers((3U << 20) + 17, 9);  // several pieces
};

TEST_F(PackedFileTest, GivesBackWhatWasWritten) {
  write("a key");
  EXPECT_FALSE(std::filesystem::exists(partial()));
  const auto opened = PackedFile::open(path(), pool_);
  ASSERT_TRUE(opened.ok()) << opened.status().to_string();
  EXPECT_EQ(opened->key(), "a key");
  const PackedMatrix* first = opened->find("first");
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->layout, "bf16");
  EXPECT_EQ(first->outputs, 16);
  EXPECT_EQ(first->inputs, 40);
  EXPECT_EQ(std::vector(first->data.begin(), first->data.end()), small_);
  const PackedMatrix* second = opened->find("second");
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(std::vector(second->data.begin(), second->data.end()), large_);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(second->data.data()) % 4096, 0U);
  EXPECT_EQ(opened->find("third"), nullptr);
}

TEST_F(PackedFileTest, EveryDamagedByteIsFound) {
  write("key");
  const std::string good = contents();
  const std::size_t end = good.find("{\"key\"");
  ASSERT_NE(end, std::string::npos);
  struct Damage {
    std::size_t at;
    const char* message;
  };
  for (const auto& [at, message] :
       std::initializer_list<Damage>{{0, "not a file of packed weights"},
                                     {8, "not a file of packed weights"},
                                     {4096, "matrix first is damaged"},
                                     {4096 + 99, "matrix first is damaged"},
                                     {8192, "matrix second is damaged"},
                                     {end - 1, "matrix second is damaged"},
                                     {end, "index is damaged"},
                                     {good.size() - 1, "index is damaged"}}) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    expect_refused(bad, message);
  }
}

// Nothing is flushed to the disk, so that a crash may leave any part of a file.
TEST_F(PackedFileTest, WhatIsCutOffIsRefused) {
  write("key");
  const std::string good = contents();
  expect_refused("", "cut off");
  expect_refused(good.substr(0, 39), "cut off");
  expect_refused(good.substr(0, 40), "cut off");
  expect_refused(good.substr(0, good.size() - 1), "cut off");
  std::string hole = good;
  std::fill_n(hole.begin() + 8192, 4096, '\0');
  expect_refused(hole, "matrix second is damaged");
}

TEST_F(PackedFileTest, NoFileIsNotFound) {
  EXPECT_EQ(PackedFile::open(path(), pool_).status().code(), StatusCode::kNotFound);
}

TEST_F(PackedFileTest, AWriterThatStopsLeavesWhatWasThere) {
  write("before");
  {
    auto writer = PackedFileWriter::create(path(), "after");
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->add({"first", "bf16", 16, 40, small_}, pool_).ok());
    EXPECT_TRUE(std::filesystem::exists(partial()));
  }
  EXPECT_FALSE(std::filesystem::exists(partial()));
  EXPECT_EQ(PackedFile::open(path(), pool_)->key(), "before");
}

TEST_F(PackedFileTest, OneWriterAtATime) {
  auto writer = PackedFileWriter::create(path(), "one");
  ASSERT_TRUE(writer.ok());
  const auto other = PackedFileWriter::create(path(), "other");
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.status().code(), StatusCode::kUnavailable);
  ASSERT_TRUE(writer->commit().ok());
  EXPECT_TRUE(PackedFileWriter::create(path(), "next").ok());
  EXPECT_EQ(PackedFile::open(path(), pool_)->key(), "one");
}

TEST_F(PackedFileTest, WhatAKilledWriterLeftIsWrittenOver) {
  folder_.write("weights.packed.partial", std::string(5 << 20, 'x'));
  write("key");
  EXPECT_TRUE(PackedFile::open(path(), pool_).ok());
  EXPECT_LT(std::filesystem::file_size(path()), 4U << 20);
}

TEST_F(PackedFileTest, AFolderThatIsNotThereCannotBeWrittenTo) {
  const auto writer = PackedFileWriter::create(folder_.path() / "none" / "file", "key");
  ASSERT_FALSE(writer.ok());
  EXPECT_EQ(writer.status().code(), StatusCode::kIoError);
}

TEST(PackedIndex, RefusesMatricesThatLieOutside) {
  const std::string bytes(8192, 'b');
  const auto refused = [&](const std::string& matrix, const std::string& message) {
    const auto index = parse_packed_index(R"({"key": "k", "matrices": [)" + matrix + "]}",
                                          bytes_of(bytes), "x.packed");
    ASSERT_FALSE(index.ok()) << matrix;
    EXPECT_EQ(index.status().code(), StatusCode::kBadModel);
    EXPECT_THAT(index.status().message(), HasSubstr(message)) << matrix;
  };
  const auto matrix = [](const std::string& rest) {
    return R"({"name": "m", "layout": "f32", "outputs": 1, "inputs": 1, )" + rest + "}";
  };
  const std::string good = matrix(R"("offset": 4096, "bytes": 4096, "checksum": "a0")");
  EXPECT_TRUE(
      parse_packed_index(R"({"key": "k", "matrices": [)" + good + "]}", bytes_of(bytes), "x.packed")
          .ok());
  refused(matrix(R"("offset": 4096, "bytes": 4097, "checksum": "a0")"), "do not lie in");
  refused(matrix(R"("offset": 12288, "bytes": 0, "checksum": "a0")"), "do not lie in");
  refused(matrix(R"("offset": 64, "bytes": 64, "checksum": "a0")"), "do not lie in");
  refused(matrix(R"("offset": -4096, "bytes": 64, "checksum": "a0")"), "negative");
  refused(matrix(R"("offset": 0, "bytes": 64, "checksum": "")"), "not a checksum");
  refused(matrix(R"("offset": 0, "bytes": 64, "checksum": "zz")"), "not a checksum");
  refused(matrix(R"("offset": 0, "bytes": 64)"), "checksum");
  refused("7", "something else than objects");
}

TEST(PackedFileName, DiffersWithWhatItIsOf) {
  EXPECT_EQ(packed_file_name("m-int8", "/models/m"), packed_file_name("m-int8", "/models/m"));
  EXPECT_NE(packed_file_name("m-int8", "/models/m"), packed_file_name("m-int8", "/other/m"));
  EXPECT_THAT(packed_file_name("m-int8", "/models/m"), ::testing::MatchesRegex("m-int8-.*packed"));
}

}  // namespace
}  // namespace quire
