#include "serve/protocols/openai/batch/multipart.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

constexpr std::string_view kType = "multipart/form-data; boundary=XX";

std::string part(std::string_view disposition, std::string_view data) {
  return "--XX\r\nContent-Disposition: " + std::string(disposition) + "\r\n\r\n" +
         std::string(data) + "\r\n";
}

std::string error_of(std::string_view type, std::string_view body) {
  const auto parts = parse_multipart(type, body);
  return parts.ok() ? "" : parts.status().message();
}

TEST(Multipart, ReadsPartsAsTheyAre) {
  const std::string data("a\r\n--X\r\n\0b", 10);
  const std::string body = "preamble\r\n" + part("form-data; name=\"purpose\"", "batch") +
                           part("form-data; name=\"file\"; filename=\"a \\\"b\\\".jsonl\"", data) +
                           part("form-data; name=empty", "") + "--XX--\r\nepilogue";
  const auto parts = parse_multipart("Multipart/Form-Data; charset=utf-8; boundary=\"XX\"", body);
  ASSERT_TRUE(parts.ok()) << parts.status().message();
  ASSERT_EQ(parts->size(), 3U);
  EXPECT_EQ((*parts)[0].name, "purpose");
  EXPECT_EQ((*parts)[0].data, "batch");
  EXPECT_FALSE((*parts)[0].has_filename);
  EXPECT_EQ((*parts)[1].filename, "a \"b\".jsonl");
  EXPECT_EQ((*parts)[1].data, data);
  EXPECT_EQ((*parts)[2].name, "empty");
  EXPECT_EQ((*parts)[2].data, "");
}

TEST(Multipart, TakesManySmallParts) {
  std::string body;
  for (int i = 0; i < 32; ++i) body += part("form-data; name=\"p" + std::to_string(i) + "\"", "1");
  const auto parts = parse_multipart(kType, body + "--XX--");
  ASSERT_TRUE(parts.ok());
  EXPECT_EQ(parts->size(), 32U);
  EXPECT_EQ(error_of(kType, body + part("form-data; name=x", "1") + "--XX--"),
            "multipart/form-data: more than 32 parts");
}

TEST(Multipart, RefusesABadBoundary) {
  const std::string body = part("form-data; name=a", "1") + "--XX--";
  EXPECT_NE(error_of("multipart/form-data", body), "");
  EXPECT_NE(error_of("multipart/form-data; boundary=", body), "");
  EXPECT_NE(error_of("multipart/form-data; boundary=\"XX", body), "");
  EXPECT_NE(error_of("multipart/form-data; boundary=" + std::string(71, 'X'), body), "");
  EXPECT_NE(error_of("multipart/form-data; boundary=XX; boundary=YY", body), "");
  EXPECT_NE(error_of("multipart/mixed; boundary=XX", body), "");
  EXPECT_NE(error_of("multipart/form-data; boundary=YY", body), "");
  EXPECT_NE(error_of(kType, ""), "");
}

TEST(Multipart, RefusesABodyThatEndsEarly) {
  const std::string whole =
      part("form-data; name=a", "1") + part("form-data; name=b", "22") + "--XX--";
  ASSERT_EQ(error_of(kType, whole), "");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(error_of(kType, whole.substr(0, size)), "") << size;
  }
}

TEST(Multipart, RefusesHeadersThatAreTooLong) {
  const std::string giant(20'000, 'x');
  EXPECT_EQ(error_of(kType, part("form-data; name=" + giant, "1") + "--XX--"),
            "multipart/form-data: a part's headers are too long");
  std::string many = "--XX\r\n";
  for (int i = 0; i < 5000; ++i) many += "a: b\r\n";
  EXPECT_EQ(error_of(kType, many + "\r\n1\r\n--XX--"),
            "multipart/form-data: a part's headers are too long");
}

TEST(Multipart, RefusesHeadersThatAreNotWellFormed) {
  for (const std::string_view disposition :
       {"attachment; name=a", "form-data", "form-data; name=\"\"", "form-data; name",
        "form-data name=a", "form-data; name=\"a", "form-data; name=a; name=b",
        "form-data; name=\"a\rb\"", "form-data; name=a\r\n folded", "form-data; name=a\r\nno colon",
        "form-data; name=a\r\nContent-Disposition: form-data; name=b",
        "form-data; name=a; filename*=UTF-8''x",
        "form-data; name=a\r\nContent-Type: multipart/mixed",
        "form-data; name=a\r\nContent-Transfer-Encoding: base64"}) {
    EXPECT_NE(error_of(kType, part(disposition, "1") + "--XX--"), "") << disposition;
  }
  EXPECT_NE(error_of(kType, "--XX\r\n\r\n1\r\n--XX--"), "");
  EXPECT_NE(error_of(kType, "--XXX\r\n\r\n1\r\n--XX--"), "");
}

TEST(Multipart, SanitizesNames) {
  EXPECT_EQ(sanitized_filename("a.jsonl"), "a.jsonl");
  EXPECT_EQ(sanitized_filename("../../etc/passwd"), "passwd");
  EXPECT_EQ(sanitized_filename("C:\\new\\x.txt"), "x.txt");
  EXPECT_EQ(sanitized_filename("a\r\nSet-Cookie: b"), "aSet-Cookie: b");
  EXPECT_EQ(sanitized_filename(".."), "upload");
  EXPECT_EQ(sanitized_filename("x/"), "upload");
  EXPECT_EQ(sanitized_filename(""), "upload");
  EXPECT_EQ(sanitized_filename("\xC3\xA9\xFF.txt"), "\xC3\xA9.txt");
  EXPECT_EQ(sanitized_filename(std::string(254, 'a') + "\xC3\xA9"), std::string(254, 'a'));
}

}  // namespace
}  // namespace quire
