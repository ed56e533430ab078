#include "weights/gguf_metadata.h"

#include <limits>

#include "weights/byte_cursor.h"
#include "weights/gguf.h"
#include "weights/test_support.h"

namespace quire {
namespace gguf_metadata_test {

using testing::bytes_of;
using testing::expect_error;
using testing::GgufBuilder;
using testing::le;

constexpr auto kBad = StatusCode::kBadModel;

Result<std::unique_ptr<GgufFile>> parse(const std::string& file) {
  return GgufFile::parse(bytes_of(file), "m.gguf");
}

// What the file says of the keys, for files that must be good. Keeps the bytes.
struct Parsed {
  explicit Parsed(const GgufBuilder& builder) : bytes(builder.build()), result(parse(bytes)) {
    EXPECT_TRUE(result.ok()) << result.status().to_string();
  }
  const GgufMetadata& keys() const { return (*result)->metadata(); }

  std::string bytes;
  Result<std::unique_ptr<GgufFile>> result;
};

TEST(GgufMetadata, ReadsEveryValueType) {
  const Parsed file(GgufBuilder()
                        .key("u8", GgufType::kU8, le<std::uint8_t>(200))
                        .key("i8", GgufType::kI8, le<std::int8_t>(-100))
                        .key("u16", GgufType::kU16, le<std::uint16_t>(60000))
                        .key("i16", GgufType::kI16, le<std::int16_t>(-30000))
                        .key("u32", GgufType::kU32, le<std::uint32_t>(4000000000U))
                        .key("i32", GgufType::kI32, le<std::int32_t>(-2000000000))
                        .key("u64", GgufType::kU64, le<std::uint64_t>(1))
                        .key("i64", GgufType::kI64, le(std::numeric_limits<std::int64_t>::min()))
                        .key("f32", GgufType::kF32, le(1.5F))
                        .key("f64", GgufType::kF64, le(1e-5))
                        .key("yes", GgufType::kBool, std::string_view("\x01", 1))
                        .key("no", GgufType::kBool, std::string_view("\x00", 1))
                        .text("text", "héllo"));
  const GgufMetadata& keys = file.keys();
  EXPECT_EQ(keys.find_int("u8")->value(), 200);
  EXPECT_EQ(keys.find_int("i8")->value(), -100);
  EXPECT_EQ(keys.find_int("u16")->value(), 60000);
  EXPECT_EQ(keys.find_int("i16")->value(), -30000);
  EXPECT_EQ(keys.find_int("u32")->value(), 4000000000);
  EXPECT_EQ(keys.find_int("i32")->value(), -2000000000);
  EXPECT_EQ(keys.find_int("u64")->value(), 1);
  EXPECT_EQ(keys.find_int("i64")->value(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(keys.find_double("f32")->value(), 1.5);
  EXPECT_EQ(keys.find_double("f64")->value(), 1e-5);
  EXPECT_EQ(keys.find_double("i8")->value(), -100.0);
  EXPECT_TRUE(keys.find_bool("yes")->value());
  EXPECT_FALSE(keys.find_bool("no")->value());
  EXPECT_EQ(keys.find_string("text")->value(), "héllo");
  EXPECT_EQ(keys.entries().size(), 13U);
  EXPECT_EQ(keys.entries()[12].key, "text");
}

TEST(GgufMetadata, ReadsArrays) {
  const Parsed file(GgufBuilder()
                        .array("strings", GgufType::kString, 3,
                               GgufBuilder::string("a") + GgufBuilder::string("") +
                                   GgufBuilder::string("long one"))
                        .array("none", GgufType::kString, 0, "")
                        .array("floats", GgufType::kF32, 2, le(0.5F) + le(-2.0F))
                        .array("ints", GgufType::kI32, 2, le(7) + le(-7))
                        .array("bytes", GgufType::kU8, 2, "\x05\xff")
                        .u32("after", 5));
  const GgufMetadata& keys = file.keys();
  EXPECT_EQ(keys.find_strings("strings")->value(), (std::vector<std::string>{"a", "", "long one"}));
  EXPECT_TRUE(keys.find_strings("none")->value().empty());
  EXPECT_EQ(keys.find_floats("floats")->value(), (std::vector<float>{0.5F, -2.0F}));
  EXPECT_EQ(keys.find_floats("ints")->value(), (std::vector<float>{7, -7}));
  EXPECT_EQ(keys.find_ints("ints")->value(), (std::vector<std::int32_t>{7, -7}));
  EXPECT_EQ(keys.find_ints("bytes")->value(), (std::vector<std::int32_t>{5, 255}));
  EXPECT_EQ(keys.get_int("after").value(), 5);
}

TEST(GgufMetadata, AbsentKeysAreNulloptOrAnError) {
  const Parsed file(GgufBuilder().u32("x", 1));
  EXPECT_FALSE(file.keys().find_int("y")->has_value());
  EXPECT_FALSE(file.keys().find_strings("y")->has_value());
  expect_error(file.keys().get_int("y"), kBad, {"m.gguf: the key y is missing"});
  expect_error(file.keys().get_double("y"), kBad, {"m.gguf: the key y is missing"});
  expect_error(file.keys().get_string("y"), kBad, {"m.gguf: the key y is missing"});
}

TEST(GgufMetadata, TypeErrorsNameKeyExpectedAndFound) {
  const Parsed file(GgufBuilder()
                        .u32("n", 1)
                        .text("s", "1")
                        .key("f", GgufType::kF32, le(1.0F))
                        .array("a", GgufType::kI32, 1, le(1)));
  const GgufMetadata& keys = file.keys();
  expect_error(keys.find_int("s"), kBad, {"m.gguf: s: expected an integer, found string"});
  expect_error(keys.find_int("f"), kBad, {"f: expected an integer, found f32"});
  expect_error(keys.find_int("a"), kBad, {"a: expected an integer, found an array of i32"});
  expect_error(keys.find_double("s"), kBad, {"s: expected a number, found string"});
  expect_error(keys.find_bool("n"), kBad, {"n: expected a bool, found u32"});
  expect_error(keys.find_string("n"), kBad, {"n: expected a string, found u32"});
  expect_error(keys.find_strings("a"), kBad,
               {"a: expected an array of string, found an array of i32"});
  expect_error(keys.find_floats("s"), kBad, {"s: expected an array of numbers, found string"});
  expect_error(keys.find_ints("f"), kBad, {"f: expected an array of integers, found f32"});
}

TEST(GgufMetadata, NumbersThatDoNotFitAreErrors) {
  const Parsed file(
      GgufBuilder()
          .key("big", GgufType::kU64, le(~std::uint64_t{0}))
          .key("nan", GgufType::kF32, le(std::numeric_limits<float>::quiet_NaN()))
          .key("inf", GgufType::kF64, le(std::numeric_limits<double>::infinity()))
          .array("doubles", GgufType::kF64, 1, le(1e300))
          .array("nans", GgufType::kF32, 1, le(std::numeric_limits<float>::quiet_NaN()))
          .array("longs", GgufType::kI64, 1, le(std::int64_t{1} << 40)));
  const GgufMetadata& keys = file.keys();
  expect_error(keys.find_int("big"), kBad, {"big: 18446744073709551615 is too large"});
  expect_error(keys.find_double("nan"), kBad, {"nan: the number is not finite"});
  expect_error(keys.find_double("inf"), kBad, {"inf: the number is not finite"});
  expect_error(keys.find_floats("doubles"), kBad, {"doubles: element 0"});
  expect_error(keys.find_floats("nans"), kBad, {"nans: element 0"});
  expect_error(keys.find_ints("longs"), kBad, {"longs: element 0 does not fit an i32"});
}

TEST(GgufMetadata, ValuesAreShownToPeople) {
  const Parsed file(GgufBuilder()
                        .u32("n", 32)
                        .key("minus", GgufType::kI8, le<std::int8_t>(-1))
                        .key("f", GgufType::kF32, le(0.5F))
                        .key("yes", GgufType::kBool, "\x01")
                        .text("s", "line\nüber")
                        .array("a", GgufType::kString, 1, GgufBuilder::string("x")));
  std::vector<std::string> shown;
  for (const GgufEntry& entry : file.keys().entries()) shown.push_back(gguf_value_text(entry, 11));
  EXPECT_EQ(shown,
            (std::vector<std::string>{"32", "-1", "0.5", "true", "line\\x0a...", "[1 x string]"}));
}

TEST(GgufMetadata, KeyCountBeyondTheFileIsRefused) {
  for (const std::uint64_t count : {std::uint64_t{2}, ~std::uint64_t{0}, std::uint64_t{1} << 60U}) {
    expect_error(parse(GgufBuilder().u32("x", 1).claim_keys(count).build()), kBad, {"m.gguf"});
  }
}

TEST(GgufMetadata, MoreKeysThanTheLimitAreRefused) {
  GgufBuilder builder;
  for (std::uint64_t i = 0; i <= kGgufMaxKeys; ++i) {
    builder.u32("k" + std::to_string(i), 0);
  }
  expect_error(parse(builder.build()), kBad, {"the header claims 65537 keys; at most 65536"});
}

TEST(GgufMetadata, StringLengthBeyondTheFileIsRefused) {
  for (const std::uint64_t size : {std::uint64_t{100}, ~std::uint64_t{0}}) {
    expect_error(parse(GgufBuilder().key("x", GgufType::kString, le(size) + "abc").build()), kBad,
                 {"m.gguf: key x", "the string needs " + std::to_string(size) + " bytes",
                  "the file has 3 more"});
  }
}

TEST(GgufMetadata, KeyLengthBeyondTheFileIsRefused) {
  expect_error(parse("GGUF" + le(3) + le<std::uint64_t>(0) + le<std::uint64_t>(1) +
                     le(~std::uint64_t{0}) + "general.name....."),
               kBad, {"key 0", "the name needs 18446744073709551615 bytes"});
}

TEST(GgufMetadata, GiantStringIsRefused) {
  const std::string text((std::size_t{64} << 20U) + 1, 'x');
  expect_error(parse(GgufBuilder().text("x", text).build()), kBad,
               {"key x", "67108865 bytes, at most 67108864"});
}

TEST(GgufMetadata, KeyTooLongOrEmptyIsRefused) {
  expect_error(parse(GgufBuilder().u32(std::string(70'000, 'k'), 1).build()), kBad,
               {"70000 bytes, at most 65535"});
  expect_error(parse(GgufBuilder().u32("", 1).build()), kBad, {"key 0", "name is empty"});
}

TEST(GgufMetadata, ArrayLengthBeyondTheFileIsRefused) {
  expect_error(parse(GgufBuilder().array("x", GgufType::kU32, 1000, "abcd").build()), kBad,
               {"key x", "the array of 1000 needs 4000 bytes, the file has 4 more"});
  expect_error(parse(GgufBuilder().array("x", GgufType::kString, 1000, "").build()), kBad,
               {"key x", "an element of the array needs 8 bytes, the file has 0 more"});
}

TEST(GgufMetadata, GiantArrayIsRefused) {
  for (const std::uint64_t count : {(std::uint64_t{1} << 24U) + 1, std::uint64_t{1} << 62U}) {
    for (const GgufType type : {GgufType::kU8, GgufType::kU64, GgufType::kString}) {
      expect_error(parse(GgufBuilder().array("x", type, count, "abcd").build()), kBad,
                   {"key x", "an array of " + std::to_string(count) + " elements, at most"});
    }
  }
}

TEST(GgufMetadata, NestedArrayIsRefused) {
  expect_error(parse(GgufBuilder().array("x", GgufType::kArray, 1, le(4) + le(1L) + le(1)).build()),
               StatusCode::kUnimplemented, {"m.gguf: key x: arrays of arrays"});
}

TEST(GgufMetadata, UnknownValueTypeIsRefused) {
  for (const std::uint32_t type : {13U, 0xffffffffU}) {
    expect_error(parse(GgufBuilder().key("x", type, "abcd").build()), kBad,
                 {"key x", "unknown value type " + std::to_string(type)});
  }
}

TEST(GgufMetadata, BoolOfAnotherValueIsRefused) {
  expect_error(parse(GgufBuilder().key("x", GgufType::kBool, "\x02").build()), kBad,
               {"key x", "expected a bool of 0 or 1, found 2"});
}

TEST(GgufMetadata, DuplicateKeysAreRefused) {
  expect_error(parse(GgufBuilder().u32("x", 1).u32("x", 2).build()), kBad,
               {"the key x appears twice"});
}

}  // namespace gguf_metadata_test
}  // namespace quire
