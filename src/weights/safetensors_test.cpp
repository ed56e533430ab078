#include "weights/safetensors.h"

#include <algorithm>

#include "weights/test_support.h"

namespace quire {
namespace safetensors_test {

using testing::bytes_of;
using testing::expect_error;
using testing::safetensors_file;
using testing::TempFolder;

constexpr auto kBad = StatusCode::kBadModel;

Result<std::vector<TensorInfo>> parse(const std::string& file) {
  return parse_safetensors(bytes_of(file), "m.safetensors");
}

Result<std::vector<TensorInfo>> parse(std::string_view header, std::size_t data_bytes) {
  return parse(safetensors_file(header, data_bytes));
}

std::string entry(std::string_view name, std::string_view dtype, std::string_view shape, int begin,
                  int end) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", name, dtype,
                     shape, begin, end);
}

// The header of one tensor "a".
std::string one(std::string_view dtype, std::string_view shape, int begin, int end) {
  return "{" + entry("a", dtype, shape, begin, end) + "}";
}

TEST(Safetensors, ReadsTensorsInPlaceByOffset) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},)" + entry("b", "BF16", "[2,3]", 8, 20) + "," +
      entry("empty", "F16", "[0,5]", 8, 8) + "," + entry("a", "F32", "[2]", 0, 8) + "," +
      entry("scalar", "F16", "[]", 20, 22) + "} ";
  const std::string bytes = safetensors_file(header, 22);
  const auto tensors = parse(bytes);
  ASSERT_TRUE(tensors.ok()) << tensors.status().to_string();
  std::vector<std::string> names;
  for (const TensorInfo& tensor : *tensors) names.push_back(tensor.name);
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b", "empty", "scalar"}));
  const TensorInfo& b = (*tensors)[1];
  EXPECT_EQ(b.encoding, Encoding::kBF16);
  EXPECT_EQ(b.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(b.data.size(), 12U);
  EXPECT_EQ(b.file, "m.safetensors");
  EXPECT_EQ(b.file_offset, 8 + header.size() + 8);
  EXPECT_EQ(static_cast<const void*>(b.data.data()), bytes.data() + b.file_offset);
  EXPECT_TRUE((*tensors)[2].data.empty());
  EXPECT_TRUE((*tensors)[3].shape.empty());
  EXPECT_EQ((*tensors)[3].data.size(), 2U);
}

TEST(Safetensors, ReadsFileWithoutTensors) {
  const auto tensors = parse("{}", 0);
  ASSERT_TRUE(tensors.ok());
  EXPECT_TRUE(tensors->empty());
}

TEST(Safetensors, OtherDtypesAreRefusedByName) {
  // Masks, which old exporters wrote, are passed over, and their bytes checked all the same.
  const auto masked =
      parse("{" + entry("m", "BOOL", "[1,1,2,2]", 0, 4) + "," + entry("a", "F32", "[1]", 4, 8) +
                "," + entry("n", "U8", "[1,1,3,3]", 8, 17) + "}",
            17);
  ASSERT_TRUE(masked.ok()) << masked.status().to_string();
  ASSERT_EQ(masked->size(), 1U);
  EXPECT_EQ((*masked)[0].name, "a");
  expect_error(parse(one("BOOL", "[1,1,2,2]", 0, 8), 8), StatusCode::kBadModel,
               {"expected 4 bytes"});
  expect_error(parse(one("U8", "[1,1,2,3]", 0, 6), 6), StatusCode::kUnimplemented, {"dtype U8"});
  for (const std::string dtype : {"I64", "F8_E4M3", "F64", "BOOL", "U8", "f32"}) {
    expect_error(
        parse(one(dtype, "[1]", 0, 8), 8), StatusCode::kUnimplemented,
        {"m.safetensors: tensor a: dtype " + dtype + " is not supported", "F32, F16 or BF16"});
  }
}

TEST(Safetensors, FourByteFileIsRefused) {
  expect_error(parse(std::string("\x01\x02\x03\x04")), kBad, {"4 bytes are too few"});
}

TEST(Safetensors, OtherKindsOfFileAreNamed) {
  expect_error(parse("version https://git-lfs.github.com/spec/v1\n"), kBad,
               {"expected a safetensors file, found a Git LFS pointer"});
  expect_error(parse("GGUF............"), kBad, {"found a GGUF file"});
  expect_error(parse("<!doctype html>......"), kBad, {"found an HTML page"});
  expect_error(parse("PK\x03\x04............"), kBad, {"found a zip archive"});
}

TEST(Safetensors, HeaderOverTheCapIsRefused) {
  expect_error(parse(testing::le(std::uint64_t{100'000'001}) + "{}"), kBad,
               {"the header claims 100000001 bytes, at most 100000000"});
  expect_error(parse(testing::le(~std::uint64_t{0}) + "{}"), kBad, {"at most 100000000"});
}

TEST(Safetensors, TruncatedHeaderIsRefused) {
  expect_error(parse(testing::le(std::uint64_t{500}) + "{\"a\":"), kBad,
               {"truncated: the header needs bytes up to 508, the file has 13"});
}

TEST(Safetensors, TruncatedDataIsRefused) {
  const std::string whole = safetensors_file(one("F32", "[4]", 0, 16), 16);
  expect_error(parse(whole.substr(0, whole.size() - 3)), kBad,
               {fmt::format("truncated: tensor a needs bytes up to {}, the file has {}",
                            whole.size(), whole.size() - 3),
                "fetch it again"});
}

TEST(Safetensors, HeaderThatIsNoJsonObjectIsRefused) {
  expect_error(parse("{\"a\": nope}", 0), kBad, {"m.safetensors: header: invalid JSON"});
  expect_error(parse("[]", 0), kBad, {"header: expected an object, found an array"});
  expect_error(parse("{} {}", 0), kBad, {"invalid JSON"});
  expect_error(parse(R"({"a":[1]})", 0), kBad, {"tensor a: expected an object, found an array"});
}

TEST(Safetensors, DeepHeaderIsRefused) {
  const std::string nested =
      "{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  expect_error(parse(nested, 0), kBad, {"m.safetensors: header: invalid JSON"});
}

TEST(Safetensors, TooManyEntriesAreRefused) {
  std::string header = "{";
  for (std::uint64_t i = 0; i <= kSafetensorsMaxEntries; ++i) {
    header += fmt::format("{}\"t{}\":0", i == 0 ? "" : ",", i);
  }
  expect_error(parse(header + "}", 0), kBad, {"more than 200000 entries"});
}

TEST(Safetensors, HundredThousandEntriesAreRead) {
  std::string header = "{";
  for (int i = 0; i < 100'000; ++i) {
    if (i > 0) header += ",";
    header += entry(fmt::format("t{}", i), "F16", "[1]", 2 * i, 2 * i + 2);
  }
  const auto tensors = parse(header + "}", 200'000);
  ASSERT_TRUE(tensors.ok()) << tensors.status().to_string();
  EXPECT_EQ(tensors->size(), 100'000U);
}

TEST(Safetensors, MissingKeysAreNamed) {
  expect_error(parse(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4), kBad,
               {"tensor a: the key \"dtype\" is missing"});
  expect_error(parse(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4), kBad,
               {"tensor a: shape: expected an array of integers, found nothing"});
  expect_error(parse(R"({"a":{"dtype":"F32","shape":[1]}})", 4), kBad,
               {"tensor a: data_offsets: expected an array of integers, found nothing"});
}

TEST(Safetensors, WrongTypesAreNamed) {
  expect_error(parse(R"({"a":{"dtype":7,"shape":[1],"data_offsets":[0,4]}})", 4), kBad,
               {"dtype: expected a string, found an integer"});
  for (const std::string shape : {"[-1]", "[1.0]", "[\"1\"]", "[null]", "[18446744073709551615]"}) {
    expect_error(parse(one("F32", shape, 0, 4), 4), kBad,
                 {"tensor a: shape: expected integers from 0 to 2^63 - 1, found"});
  }
  expect_error(parse(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 8), kBad,
               {"data_offsets: expected at most 2 numbers, found 3"});
  expect_error(parse(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4), kBad,
               {"data_offsets: expected a begin and an end"});
  expect_error(parse(one("F32", "[1,1,1,1,1,1,1,1,1]", 0, 4), 4), kBad,
               {"shape: expected at most 8 numbers, found 9"});
}

TEST(Safetensors, ShapeThatContradictsTheBytesIsRefused) {
  expect_error(parse(one("F32", "[3]", 0, 16), 16), kBad,
               {"tensor a: expected 12 bytes for shape [3] of F32, found 16"});
  expect_error(parse(one("F16", "[8]", 0, 8), 8), kBad, {"expected 16 bytes"});
}

TEST(Safetensors, ShapeThatOverflowsIsRefused) {
  expect_error(parse(one("F32", "[4294967296,4294967296]", 0, 4), 4), kBad,
               {"tensor a: shape [4294967296, 4294967296] of F32 does not fit"});
  expect_error(parse(one("F32", "[9223372036854775807]", 0, 4), 4), kBad, {"does not fit"});
}

TEST(Safetensors, ReversedOffsetsAreRefused) {
  expect_error(parse(one("F32", "[1]", 4, 0), 4), kBad,
               {"data_offsets: expected a begin and an end not before it, found [4, 0]"});
}

TEST(Safetensors, OffsetsPastTheEndAreRefused) {
  const std::string header =
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[9223372036854775800,9223372036854775804]}})";
  expect_error(parse(header, 4), kBad, {"truncated: tensor a needs bytes up to"});
}

TEST(Safetensors, OverlapsAreRefused) {
  expect_error(
      parse("{" + entry("a", "F32", "[2]", 0, 8) + "," + entry("b", "F32", "[2]", 4, 12) + "}", 12),
      kBad, {"tensor b begins at byte", "inside tensor a"});
}

TEST(Safetensors, HolesAreRefused) {
  expect_error(
      parse("{" + entry("a", "F32", "[1]", 0, 4) + "," + entry("b", "F32", "[1]", 8, 12) + "}", 12),
      kBad, {"before tensor b belong to no tensor"});
  expect_error(parse(one("F32", "[1]", 4, 8), 8), kBad, {"before tensor a belong to no tensor"});
}

TEST(Safetensors, BytesAfterTheLastTensorAreRefused) {
  expect_error(parse(one("F32", "[1]", 0, 4), 5), kBad, {"after the last tensor belong to no"});
}

TEST(Safetensors, DuplicateNamesAreRefused) {
  expect_error(
      parse("{" + entry("a", "F32", "[1]", 0, 4) + "," + entry("a", "F32", "[1]", 0, 4) + "}", 4),
      kBad, {"tensor a appears twice in the header"});
  expect_error(
      parse("{" + entry("a", "F32", "[1]", 0, 4) + "," + entry("\\u0061", "F32", "[1]", 0, 4) + "}",
            4),
      kBad, {"a tensor appears twice in the header"});
}

TEST(Safetensors, DamagedFilesNeverCrash) {
  const std::string whole =
      safetensors_file(R"({"__metadata__":{"format":"pt"},)" + entry("a", "F32", "[2,2]", 0, 16) +
                           "," + entry("b.weight", "BF16", "[3]", 16, 22) + "}",
                       22);
  ASSERT_TRUE(parse(whole).ok());
  int refused = 0;
  for (std::uint64_t round = 0; round < 20'000; ++round) {
    const std::string bytes = testing::damaged(whole, round);
    const auto tensors = parse(bytes);
    if (!tensors.ok()) {
      ++refused;
      EXPECT_FALSE(tensors.status().message().empty());
      continue;
    }
    for (const TensorInfo& tensor : *tensors) {
      ASSERT_LE(tensor.file_offset + tensor.data.size(), bytes.size()) << "round " << round;
    }
  }
  EXPECT_GT(refused, 10'000);
}

// A folder with two shards, "a" in the first and "b" in the second.
class ShardedSafetensors : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_.write(kFirst, safetensors_file("{" + entry("a", "F32", "[1]", 0, 4) + "}", 4));
    folder_.write(kSecond, safetensors_file("{" + entry("b", "F16", "[2]", 0, 4) + "}", 4));
    write_index(fmt::format(R"({{"a":"{}","b":"{}"}})", kFirst, kSecond));
  }

  void write_index(std::string_view weight_map) const {
    folder_.write("model.safetensors.index.json",
                  fmt::format(R"({{"metadata":{{}},"weight_map":{}}})", weight_map));
  }

  Result<std::unique_ptr<WeightSource>> open() const { return open_safetensors(folder_.path()); }

  static constexpr const char* kFirst = "model-00001-of-00002.safetensors";
  static constexpr const char* kSecond = "model-00002-of-00002.safetensors";
  TempFolder folder_;
};

TEST_F(ShardedSafetensors, ReadsAllShards) {
  const auto source = open();
  ASSERT_TRUE(source.ok()) << source.status().to_string();
  ASSERT_EQ((*source)->tensors().size(), 2U);
  EXPECT_EQ((*source)->tensors()[0].name, "a");
  ASSERT_NE((*source)->find("b"), nullptr);
  EXPECT_EQ((*source)->find("b")->encoding, Encoding::kF16);
  EXPECT_TRUE((*source)->find("b")->file.ends_with(kSecond));
  EXPECT_EQ((*source)->find("c"), nullptr);
}

TEST_F(ShardedSafetensors, MissingShardIsNamed) {
  std::filesystem::remove(folder_.path() / kSecond);
  expect_error(open(), StatusCode::kNotFound, {kSecond, "fetch the missing shard"});
}

TEST_F(ShardedSafetensors, TruncatedShardIsNamed) {
  std::filesystem::resize_file(folder_.path() / kSecond,
                               std::filesystem::file_size(folder_.path() / kSecond) - 1);
  expect_error(open(), kBad, {kSecond, "truncated: tensor b needs bytes up to"});
}

TEST_F(ShardedSafetensors, EmptyShardIsNamed) {
  folder_.write(kSecond, "");
  expect_error(open(), kBad, {kSecond, "0 bytes are too few"});
}

TEST_F(ShardedSafetensors, IndexNamingAnAbsentTensorIsRefused) {
  write_index(fmt::format(R"({{"a":"{}","b":"{}","c":"{}"}})", kFirst, kSecond, kSecond));
  expect_error(open(), kBad, {"index.json", "tensor c is not in", kSecond});
}

TEST_F(ShardedSafetensors, IndexNamingAnotherShardIsRefused) {
  write_index(fmt::format(R"({{"a":"{}","b":"{}"}})", kSecond, kFirst));
  expect_error(open(), kBad, {"index.json", "tensor a is not in", kSecond});
}

TEST_F(ShardedSafetensors, TensorInTwoShardsIsRefused) {
  folder_.write(kSecond, safetensors_file("{" + entry("a", "F32", "[1]", 0, 4) + "}", 4));
  expect_error(open(), kBad, {"tensor a is also in"});
}

TEST_F(ShardedSafetensors, IndexThatLeavesTheFolderIsRefused) {
  for (const std::string name :
       {"../model.safetensors", "/etc/model.safetensors", "sub/model.safetensors",
        "..\\\\model.safetensors", ".safetensors", "model.bin", "", "a\\u0000.safetensors"}) {
    write_index(fmt::format(R"({{"a":"{}"}})", name));
    expect_error(open(), kBad, {"weight_map: a: expected the name of a .safetensors file"});
  }
}

TEST_F(ShardedSafetensors, BrokenIndexIsRefused) {
  write_index("{}");
  expect_error(open(), kBad, {"weight_map: it names no tensors"});
  write_index("[]");
  expect_error(open(), kBad, {"weight_map: expected an object, found an array"});
  write_index(R"({"a":1})");
  expect_error(open(), kBad, {"weight_map: a: expected a file name, found an integer"});
  folder_.write("model.safetensors.index.json", "{\"weight_map\":");
  expect_error(open(), kBad, {"index.json: invalid JSON"});
}

TEST_F(ShardedSafetensors, OneFileGoesBeforeShards) {
  folder_.write("model.safetensors",
                safetensors_file("{" + entry("whole", "F32", "[1]", 0, 4) + "}", 4));
  const auto source = open();
  ASSERT_TRUE(source.ok()) << source.status().to_string();
  EXPECT_NE((*source)->find("whole"), nullptr);
  EXPECT_EQ((*source)->tensors().size(), 1U);
}

TEST(SafetensorsFolder, FolderWithoutWeightsIsNotFound) {
  const TempFolder folder;
  expect_error(open_safetensors(folder.path()), StatusCode::kNotFound,
               {"neither model.safetensors nor model.safetensors.index.json"});
}

TEST(SafetensorsFolder, PicklesAreRefused) {
  const TempFolder folder;
  folder.write("pytorch_model.bin", "x");
  expect_error(open_safetensors(folder.path()), kBad,
               {"pytorch_model.bin is a pickle", "safetensors"});
}

TEST(SafetensorsFolder, ReadsTheCommittedShards) {
  const auto source = open_safetensors(QUIRE_SOURCE_DIR "/tests/data/tiny_llama/hf");
  ASSERT_TRUE(source.ok()) << source.status().to_string();
  EXPECT_EQ((*source)->tensors().size(), 21U);
  std::int64_t parameters = 0;
  for (const TensorInfo& tensor : (*source)->tensors()) {
    std::int64_t elements = 1;
    for (const std::int64_t size : tensor.shape) elements *= size;
    parameters += elements;
  }
  EXPECT_EQ(parameters, 45216);  // what the index says
  EXPECT_EQ((*source)->find("model.embed_tokens.weight")->shape[0], 320);
}

TEST(SafetensorsFolder, ReadsStories260k) {
  const std::filesystem::path folder = QUIRE_SOURCE_DIR "/../shared/models/stories260k";
  QUIRE_REQUIRE_FILE(folder);
  const auto source = open_safetensors(folder);
  ASSERT_TRUE(source.ok()) << source.status().to_string();
  const TensorInfo* embedding = (*source)->find("model.embed_tokens.weight");
  ASSERT_NE(embedding, nullptr);
  EXPECT_EQ(embedding->encoding, Encoding::kF32);
  EXPECT_EQ(embedding->shape, (std::vector<std::int64_t>{512, 64}));
}

}  // namespace safetensors_test
}  // namespace quire
