#include "weights/gguf.h"

#include <ctime>

#include "weights/gguf_header.h"
#include "weights/test_support.h"

namespace quire {
namespace gguf_test {

using testing::bytes_of;
using testing::expect_error;
using testing::GgufBuilder;
using testing::TempFolder;

constexpr auto kBad = StatusCode::kBadModel;
constexpr auto kUnimplemented = StatusCode::kUnimplemented;

Result<std::unique_ptr<GgufFile>> parse(const std::string& file) {
  return GgufFile::parse(bytes_of(file), "m.gguf");
}

// Two F32 tensors, the first a 2 x 3 matrix, the second a vector of 8 in Q8_0's place.
GgufBuilder two_tensors() {
  return GgufBuilder()
      .text("general.architecture", "llama")
      .tensor("a", {3, 2}, 0, 0)
      .tensor("b", {32}, 8, 32);
}

TEST(Gguf, ReadsTensorsInPlaceWithDimensionsReversed) {
  const std::string bytes = two_tensors().build(66);
  const auto file = parse(bytes);
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ((*file)->version(), 3U);
  ASSERT_EQ((*file)->tensors().size(), 2U);
  const TensorInfo& a = (*file)->tensors()[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.encoding, Encoding::kF32);
  EXPECT_EQ(a.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(a.data.size(), 24U);
  EXPECT_EQ(a.file, "m.gguf");
  EXPECT_EQ(a.file_offset, bytes.size() - 66);
  EXPECT_EQ(static_cast<const void*>(a.data.data()), bytes.data() + a.file_offset);
  const TensorInfo* b = (*file)->find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->encoding, Encoding::kQ8_0);
  EXPECT_EQ(b->data.size(), 34U);
  EXPECT_EQ((*file)->find("c"), nullptr);
}

// A header is read from as much as there is of it, and no further than its end.
TEST(Gguf, SaysHowLongItsHeaderIs) {
  const std::string file = two_tensors().build(66);
  const std::uint64_t tensors_begin = file.size() - 66;
  std::optional<std::uint64_t> found;
  for (std::size_t size = 4; size <= file.size() && !found; ++size) {
    const auto header = read_gguf_header(bytes_of(file).first(size), file.size(), "m.gguf");
    ASSERT_TRUE(header.ok()) << size << ": " << header.status().to_string();
    if (*header) found = (*header)->bytes;
    if (found) {
      EXPECT_EQ(*found, size);
    }
  }
  ASSERT_TRUE(found);
  EXPECT_LE(*found, tensors_begin);
  EXPECT_GT(*found + 32, tensors_begin);
  // Of a file that is shorter than its tensors this is said at once.
  const auto cut = read_gguf_header(bytes_of(file).first(*found), file.size() - 1, "m.gguf");
  EXPECT_EQ(cut.status().code(), StatusCode::kBadModel);
  // What is no header is no beginning of one.
  EXPECT_FALSE(read_gguf_header(bytes_of("<html>"), 1000, "m.gguf").ok());
  EXPECT_FALSE(read_gguf_header(bytes_of(file).first(*found - 1), *found - 1, "m.gguf").ok());
}

TEST(Gguf, ReadsVersion2) { EXPECT_TRUE(parse(two_tensors().version(2).build(66)).ok()); }

TEST(Gguf, ReadsAnotherAlignment) {
  const std::string bytes =
      GgufBuilder().u32("general.alignment", 64).tensor("a", {4}, 0, 64).build(80, 64);
  const auto file = parse(bytes);
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ((*file)->tensors()[0].file_offset, bytes.size() - 16);
}

TEST(Gguf, ReadsFileWithoutTensors) {
  const auto file = parse(GgufBuilder().u32("x", 1).build());
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_TRUE((*file)->tensors().empty());
}

TEST(Gguf, ReadsEmptyTensor) {
  const auto file = parse(GgufBuilder().tensor("a", {0, 4}, 0, 0).tensor("b", {4}, 0, 0).build(16));
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_TRUE((*file)->find("a")->data.empty());
}

TEST(Gguf, MissingFileIsNotFound) {
  expect_error(GgufFile::open("/nowhere/m.gguf"), StatusCode::kNotFound, {"/nowhere/m.gguf"});
}

TEST(Gguf, EmptyFileIsRefused) { expect_error(parse(""), kBad, {"m.gguf", "0 bytes"}); }

TEST(Gguf, FourByteFileIsRefused) {
  expect_error(parse("GGUF"), kBad, {"m.gguf: truncated", "24 bytes", "has 4", "fetch it again"});
}

TEST(Gguf, TruncatedFileIsRefused) {
  const std::string whole = two_tensors().build(66);
  const std::string data = std::to_string(whole.size());
  expect_error(
      parse(whole.substr(0, whole.size() - 1)), kBad,
      {"m.gguf: truncated: tensor b needs bytes up to " + data, "the file has", "fetch it again"});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(parse(whole.substr(0, size)).ok()) << size;
  }
}

TEST(Gguf, WrongMagicIsNamed) {
  const std::string safetensors = testing::safetensors_file("{}", 0);
  const std::pair<std::string, std::string> kinds[] = {
      {safetensors, "found a safetensors file"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
       "found a Git LFS pointer, not the file itself"},
      {"PK\x03\x04 archive/data.pkl", "found a zip archive"},
      {"\x80\x02}q.", "found a Python pickle"},
      {"\x1f\x8b\x08\x01\x02", "found a gzip archive"},
      {"<!DOCTYPE html><html>", "found an HTML page"},
      {"<HTML><body>404", "found an HTML page"},
      {"tjgg\x03\x01\x01\x01", "older than GGUF"},
      {"{\"error\": 1}", "found a JSON text"},
      {"what is it", "found bytes of an unknown kind"},
  };
  for (const auto& [bytes, noun] : kinds) {
    expect_error(parse(bytes), kBad, {"m.gguf: expected a GGUF file", noun});
  }
}

TEST(Gguf, BigEndianFileIsRefused) {
  expect_error(parse(two_tensors().version(0x03000000).build(66)), kUnimplemented, {"big-endian"});
}

TEST(Gguf, OtherVersionsAreRefused) {
  for (const std::uint32_t version : {0U, 1U, 4U, 0xffffffffU}) {
    expect_error(parse(two_tensors().version(version).build(66)), kUnimplemented,
                 {"expected GGUF version 2 or 3", std::to_string(version)});
  }
}

TEST(Gguf, PartInMemoryIsRefused) {
  expect_error(parse(GgufBuilder()
                         .key("split.count", GgufType::kU16, testing::le<short>(9))
                         .key("split.no", GgufType::kU16, testing::le<short>(2))
                         .build()),
               kUnimplemented, {"part 3 of 9"});
}

TEST(Gguf, TensorCountBeyondTheFileIsRefused) {
  for (const std::uint64_t count : {std::uint64_t{3}, ~std::uint64_t{0}, std::uint64_t{1} << 61U}) {
    expect_error(parse(two_tensors().claim_tensors(count).build()), kBad, {"m.gguf", "tensor"});
  }
}

TEST(Gguf, AlignmentMustBeAPowerOfTwoInRange) {
  for (const std::uint32_t value : {0U, 1U, 4U, 33U, 48U, 0x200000U, 0x80000000U}) {
    expect_error(parse(GgufBuilder().u32("general.alignment", value).build()), kBad,
                 {"general.alignment", "a power of two from 8 to 1048576",
                  "found " + std::to_string(value)});
  }
}

TEST(Gguf, AlignmentOfAnotherTypeIsRefused) {
  expect_error(parse(GgufBuilder().text("general.alignment", "32").build()), kBad,
               {"general.alignment: expected u32, found string"});
  expect_error(
      parse(GgufBuilder().array("general.alignment", GgufType::kU32, 1, testing::le(32)).build()),
      kBad, {"general.alignment: expected u32, found an array of u32"});
}

TEST(Gguf, DimensionsThatOverflowAreRefused) {
  const std::uint64_t big = std::uint64_t{1} << 32U;
  for (const auto& dims : std::vector<std::vector<std::uint64_t>>{
           {big, big}, {big, big, 2}, {big / 2, big / 2, 2, 2}, {std::uint64_t{1} << 62U}}) {
    expect_error(parse(GgufBuilder().tensor("huge", dims, 0, 0).build(64)), kBad,
                 {"m.gguf", "tensor huge", "63 bits"});
  }
  expect_error(parse(GgufBuilder().tensor("huge", {~std::uint64_t{0}}, 0, 0).build(64)), kBad,
               {"tensor huge", "dimension 0 is 18446744073709551615"});
}

TEST(Gguf, ExabyteTensorIsRefused) {
  expect_error(parse(GgufBuilder().tensor("huge", {1U << 30U, 1U << 28U}, 0, 0).build(64)), kBad,
               {"tensor huge needs bytes up to", "the file has"});
}

TEST(Gguf, OffsetThatWrapsIsRefused) {
  expect_error(parse(GgufBuilder().tensor("a", {8}, 0, ~std::uint64_t{31}).build(64)), kBad,
               {"tensor a", "do not fit 64 bits"});
}

TEST(Gguf, OffsetPastTheEndIsRefused) {
  expect_error(parse(GgufBuilder().tensor("a", {8}, 0, 64).build(64)), kBad,
               {"truncated: tensor a needs bytes up to"});
}

TEST(Gguf, MisalignedOffsetIsRefused) {
  expect_error(parse(GgufBuilder().tensor("a", {4}, 0, 8).build(64)), kBad,
               {"tensor a", "offset 8 is not a multiple of the alignment 32"});
}

TEST(Gguf, OverlappingTensorsAreRefused) {
  expect_error(parse(GgufBuilder().tensor("a", {9}, 0, 0).tensor("b", {4}, 0, 32).build(64)), kBad,
               {"tensor b begins at byte", "inside tensor a"});
}

TEST(Gguf, DuplicateTensorsAreRefused) {
  expect_error(parse(GgufBuilder().tensor("a", {4}, 0, 0).tensor("a", {4}, 0, 32).build(64)), kBad,
               {"the tensor a appears twice"});
}

TEST(Gguf, TooManyDimensionsAreRefused) {
  expect_error(parse(GgufBuilder().tensor("a", {1, 1, 1, 1, 1}, 0, 0).build(64)), kBad,
               {"tensor a", "at most 4 dimensions, found 5"});
}

TEST(Gguf, PartOfABlockIsRefused) {
  expect_error(parse(GgufBuilder().tensor("a", {33}, 8, 0).build(64)), kBad,
               {"tensor a", "[33]", "Q8_0", "whole number of blocks"});
  expect_error(parse(GgufBuilder().tensor("a", {96}, 40, 0).build(512)), kBad,
               {"tensor a", "[96]", "NVFP4", "whole number of blocks"});
  // The K encodings' blocks have 256 weights.
  expect_error(parse(GgufBuilder().tensor("a", {320}, 12, 0).build(512)), kBad,
               {"tensor a", "[320]", "Q4_K", "whole number of blocks"});
}

TEST(Gguf, KnownTensorTypeIsRefusedByName) {
  const std::pair<std::uint32_t, std::string> types[] = {
      {9, "Q8_1"}, {24, "I8"}, {28, "F64"}, {41, "Q1_0"}};
  for (const auto& [type, name] : types) {
    expect_error(parse(GgufBuilder().tensor("blk.0.attn_q.weight", {256}, type, 0).build(512)),
                 kUnimplemented,
                 {"tensor blk.0.attn_q.weight: encoding " + name + " is not supported", "NVFP4"});
  }
}

// Each encoding by the number of its type: the bytes of 256 weights are found and taken.
TEST(Gguf, TensorsHaveAnyEncoding) {
  const std::pair<std::uint32_t, Encoding> types[] = {
      {0, Encoding::kF32},      {1, Encoding::kF16},     {2, Encoding::kQ4_0},
      {3, Encoding::kQ4_1},     {6, Encoding::kQ5_0},    {7, Encoding::kQ5_1},
      {8, Encoding::kQ8_0},     {10, Encoding::kQ2_K},   {11, Encoding::kQ3_K},
      {12, Encoding::kQ4_K},    {13, Encoding::kQ5_K},   {14, Encoding::kQ6_K},
      {16, Encoding::kIQ2_XXS}, {17, Encoding::kIQ2_XS}, {18, Encoding::kIQ3_XXS},
      {19, Encoding::kIQ1_S},   {21, Encoding::kIQ3_S},  {22, Encoding::kIQ2_S},
      {29, Encoding::kIQ1_M},   {34, Encoding::kTQ1_0},  {35, Encoding::kTQ2_0},
      {15, Encoding::kQ8_K},    {20, Encoding::kIQ4_NL}, {23, Encoding::kIQ4_XS},
      {30, Encoding::kBF16},    {39, Encoding::kMXFP4},  {40, Encoding::kNVFP4}};
  const int of_safetensors = static_cast<int>(kFirstCompact) - static_cast<int>(Encoding::kQ6_K) -
                             1 + kNumEncodings - static_cast<int>(Encoding::kNVFP4Scaled);
  EXPECT_EQ(std::size(types), static_cast<std::size_t>(kNumEncodings - of_safetensors));
  for (const auto& [type, encoding] : types) {
    const auto bytes = encoded_row_bytes(encoding, 256).value();
    const auto whole = GgufBuilder().tensor("a", {256}, type, 0).build(bytes);
    const auto file = parse(whole);
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    EXPECT_EQ((*file)->tensors()[0].encoding, encoding);
    EXPECT_EQ((*file)->tensors()[0].data.size(), bytes);
    expect_error(parse(GgufBuilder().tensor("a", {256}, type, 0).build(bytes - 1)), kBad,
                 {"tensor a"});
  }
}

TEST(Gguf, UnknownTensorTypeIsRefusedByNumber) {
  for (const std::uint32_t type : {4U, 31U, 36U, 42U, 1000U}) {
    expect_error(parse(GgufBuilder().tensor("a", {256}, type, 0).build(512)), kBad,
                 {"tensor a", "unknown tensor type " + std::to_string(type)});
  }
}

TEST(Gguf, NegativeTensorTypeIsRefused) {
  expect_error(parse(GgufBuilder().tensor("a", {256}, 0xffffffffU, 0).build(512)), kBad,
               {"unknown tensor type -1"});
}

TEST(Gguf, TensorNameTooLongOrEmptyIsRefused) {
  expect_error(parse(GgufBuilder().tensor(std::string(5000, 'x'), {4}, 0, 0).build(64)), kBad,
               {"tensor 0", "1 to 4096 bytes, found 5000"});
  expect_error(parse(GgufBuilder().tensor("", {4}, 0, 0).build(64)), kBad, {"found 0"});
}

TEST(Gguf, ControlCharactersDoNotReachMessages) {
  const auto file = parse(GgufBuilder().tensor("a\x1b[2J\xff", {256}, 9, 0).build(512));
  expect_error(file, kUnimplemented, {"a\\x1b[2J\\xff"});
}

TEST(Gguf, DamagedFilesNeverCrash) {
  const std::string whole =
      two_tensors()
          .u32("general.alignment", 32)
          .array("tokens", GgufType::kString, 3,
                 GgufBuilder::string("a") + GgufBuilder::string("bc") + GgufBuilder::string(""))
          .array("scores", GgufType::kF32, 2, testing::le(1.0F) + testing::le(2.0F))
          .key("flag", GgufType::kBool, "\x01")
          .build(66);
  ASSERT_TRUE(parse(whole).ok());
  int refused = 0;
  for (std::uint64_t round = 0; round < 20'000; ++round) {
    const std::string bytes = testing::damaged(whole, round);
    const auto file = parse(bytes);
    if (!file.ok()) {
      ++refused;
      EXPECT_FALSE(file.status().message().empty());
      continue;
    }
    for (const TensorInfo& tensor : (*file)->tensors()) {
      ASSERT_LE(tensor.file_offset + tensor.data.size(), bytes.size()) << "round " << round;
    }
    for (const GgufEntry& entry : (*file)->metadata().entries()) {
      gguf_value_text(entry);
      (void)(*file)->find_int(entry.key);
      (void)(*file)->find_double(entry.key);
      (void)(*file)->find_strings(entry.key);
      (void)(*file)->find_floats(entry.key);
    }
  }
  EXPECT_GT(refused, 5'000);
}

TEST(Gguf, ReadsTheCommittedCheckpoints) {
  const std::filesystem::path folder = QUIRE_SOURCE_DIR "/tests/data/tiny_llama";
  const std::pair<const char*, Encoding> files[] = {
      {"f32", Encoding::kF32},   {"f16", Encoding::kF16},   {"bf16", Encoding::kBF16},
      {"q8_0", Encoding::kQ8_0}, {"q4_0", Encoding::kQ4_0}, {"q4_1", Encoding::kQ4_1},
      {"q5_0", Encoding::kQ5_0}, {"q5_1", Encoding::kQ5_1}};
  for (const auto& [suffix, encoding] : files) {
    const auto file = GgufFile::open(folder / fmt::format("tiny_llama_{}.gguf", suffix));
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    EXPECT_EQ(*(*file)->get_string("general.architecture"), "llama");
    const TensorInfo* query = (*file)->find("blk.0.attn_q.weight");
    ASSERT_NE(query, nullptr);
    EXPECT_EQ(query->encoding, encoding) << suffix;
    EXPECT_EQ(query->shape.size(), 2U);
    const TensorInfo* embedding = (*file)->find("token_embd.weight");
    ASSERT_NE(embedding, nullptr);
    EXPECT_EQ(embedding->shape[0], 320);
    EXPECT_EQ(embedding->shape[1], *(*file)->get_int("llama.embedding_length"));
  }
}

// Of this thread: however busy the machine is.
double processor_seconds() {
  timespec time{};
  EXPECT_EQ(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time), 0);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

TEST(Gguf, ReadsSmolLM2Quickly) {
  const std::filesystem::path path =
      QUIRE_SOURCE_DIR "/models/SmolLM2-135M-Instruct/SmolLM2-135M-Instruct.Q4_1.gguf";
  QUIRE_REQUIRE_FILE(path);
  const double start = processor_seconds();
  const auto file = GgufFile::open(path);
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  const auto tokens = (*file)->find_strings("tokenizer.ggml.tokens");
  const double elapsed = processor_seconds() - start;
  ASSERT_TRUE(tokens.ok());
  ASSERT_TRUE(tokens->has_value());
  EXPECT_EQ((*tokens)->size(), 49152U);
  EXPECT_EQ((**tokens)[1], "<|im_start|>");
  EXPECT_EQ(*(*file)->get_int("llama.block_count"), 30);
  EXPECT_EQ((*file)->find("token_embd.weight")->shape, (std::vector<std::int64_t>{49152, 576}));
  EXPECT_EQ((*file)->tensors().size(), 272U);
  RecordProperty("open_ms", static_cast<int>(1e3 * elapsed));
  EXPECT_LT(elapsed, 1.0) << "a vocabulary is read in milliseconds";
}

TEST(Gguf, ReadsRealTokenizerFiles) {
  const std::filesystem::path folder = QUIRE_SOURCE_DIR "/../shared/data/tokenizers";
  QUIRE_REQUIRE_FILE(folder);
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".gguf") continue;
    const auto file = GgufFile::open(entry.path());
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    EXPECT_TRUE((*file)->find_strings("tokenizer.ggml.tokens")->has_value()) << entry.path();
    ++count;
  }
  EXPECT_GT(count, 0);
}

}  // namespace gguf_test
}  // namespace quire
