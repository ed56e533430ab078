// The parts of getting a model that need no server; the rest is in tests/cli_pull_test.py.
#include <gmock/gmock.h>

#include "hub/file_choice.h"
#include "hub/file_hash.h"
#include "hub/model_locator.h"
#include "hub/s3_listing.h"
#include "hub/url.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ModelLocator, ReadsEachForm) {
  const auto hub = parse_model_locator("org/name@refs/pr/1:Q4_K_M");
  ASSERT_TRUE(hub.ok()) << hub.status().to_string();
  EXPECT_EQ(hub->kind, ModelLocator::Kind::kHub);
  EXPECT_EQ(hub->repo, "org/name");
  EXPECT_EQ(hub->revision, "refs/pr/1");
  EXPECT_EQ(hub->file, "Q4_K_M");
  EXPECT_EQ(hub->text(), "org/name@refs/pr/1:Q4_K_M");
  EXPECT_EQ(parse_model_locator("org/name")->text(), "org/name");

  const auto file = parse_model_locator("file:///a%20b/c");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->kind, ModelLocator::Kind::kPath);
  EXPECT_EQ(file->path, "/a b/c");

  const auto url = parse_model_locator("https://host/x.gguf?sig=1#part");
  ASSERT_TRUE(url.ok());
  EXPECT_EQ(url->kind, ModelLocator::Kind::kUrl);
  EXPECT_EQ(url->url, "https://host/x.gguf?sig=1");

  const auto s3 = parse_model_locator("s3://bucket/a/b/");
  ASSERT_TRUE(s3.ok());
  EXPECT_EQ(s3->bucket, "bucket");
  EXPECT_EQ(s3->key, "a/b");
}

TEST(ModelLocator, WhatIsNoNameOfAHubIsAPath) {
  for (const char* text : {"name", "./org/name", "a/b/c", "/abs/path", "../x", "org/na me",
                           "org/name.git", "org/a--b", "-org/name", ""}) {
    const auto found = parse_model_locator(text);
    ASSERT_TRUE(found.ok()) << text;
    EXPECT_EQ(found->kind, ModelLocator::Kind::kPath) << text;
    EXPECT_EQ(found->path, text);
  }
}

TEST(ModelLocator, RefusesAddressesOfNothing) {
  for (const char* text :
       {"ftp://h/x.gguf", "http://h/x.bin", "http:///x.gguf", "file://relative", "s3://b/k",
        "s3://bucket", "s3://bucket/../k", "s3://BUCKET/k", "https://h/a b.gguf", "org/name@",
        "org/name:", "org/name@../x", "org/name:../x", "file:///a%00b"}) {
    EXPECT_EQ(parse_model_locator(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(Url, OriginsTellServersApart) {
  EXPECT_EQ(origin_of("https://Host/a"), "https://host:443");
  EXPECT_EQ(origin_of("https://host:443/b?c"), "https://host:443");
  EXPECT_EQ(origin_of("http://host/a"), "http://host:80");
  EXPECT_EQ(origin_of("http://user:pw@host:81?x"), "http://host:81");
  EXPECT_EQ(origin_of("http://[::1]/a"), "http://[::1]:80");
  EXPECT_EQ(origin_of("http://[::1]:8080/a"), "http://[::1]:8080");
  EXPECT_EQ(origin_of("https://host#@evil/"), "https://host:443");
  EXPECT_EQ(origin_of("ftp://host/a"), "");
  EXPECT_EQ(server_of("https://host:443/b"), "https://host");
  EXPECT_EQ(server_of("http://host:443/b"), "http://host:443");
  EXPECT_EQ(percent_encoded("a/b c+d", "/"), "a/b%20c%2Bd");
  EXPECT_EQ(percent_decoded("a%2Fb%2"), "a/b%2");
}

TEST(FileHash, KnowsBothHashesOfTheHub) {
  auto git = FileHash::expecting("ce013625030ba8dba906f756967f9e9ca394464a", 6);
  ASSERT_TRUE(git);
  git->add("hello\n");
  EXPECT_TRUE(git->matches());
  git->restart();
  git->add("hello!");
  EXPECT_FALSE(git->matches());
  auto large = FileHash::expecting(sha256_hex("abc"), 3);
  ASSERT_TRUE(large);
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  large->add("ab");
  large->add("c");
  EXPECT_TRUE(large->matches());
  EXPECT_FALSE(FileHash::expecting("abc", 3));
  EXPECT_FALSE(FileHash::expecting(std::string(40, 'g'), 3));
}

TEST(FileChoice, TakesWhatIsReadAndWeightsLast) {
  const auto choice =
      choose_files({"README.md", "config.json", "model.safetensors", "onnx/model.onnx",
                    "original/model.safetensors", "pytorch_model.bin", "tokenizer.json"},
                   "", "o/n");
  ASSERT_TRUE(choice.ok());
  EXPECT_THAT(choice->files, ElementsAre("config.json", "tokenizer.json", "model.safetensors"));
  EXPECT_THAT(choice->index, IsEmpty());
}

TEST(FileChoice, TakesTheModulesOfSentenceTransformers) {
  const auto choice = choose_files({"config.json", "modules.json", "1_Pooling/config.json",
                                    "model.safetensors.index.json", "x/config.json.bak"},
                                   "", "o/n");
  ASSERT_TRUE(choice.ok());
  EXPECT_THAT(choice->files, ElementsAre("config.json", "modules.json", "1_Pooling/config.json",
                                         "model.safetensors.index.json"));
  EXPECT_EQ(choice->index, "model.safetensors.index.json");
}

TEST(FileChoice, AnEncodingIsAWholeWordOfAName) {
  const std::vector<std::string> names = {"m-Q4_K_M.gguf", "m-Q4_K.gguf", "m-IQ4_K.gguf"};
  EXPECT_EQ(choose_files(names, "q4_k", "o/n")->gguf, "m-Q4_K.gguf");
  EXPECT_THAT(choose_files(names, "K", "o/n").status().message(), HasSubstr("has 2 GGUF models"));
  EXPECT_EQ(choose_files(names, "4_K", "o/n").status().code(), StatusCode::kNotFound);
}

TEST(S3Listing, ReadsKeysAndPages) {
  const auto page = read_s3_listing(
      "<ListBucketResult xmlns='x'><IsTruncated>true</IsTruncated>"
      "<NextContinuationToken>t&#x3D;</NextContinuationToken>"
      "<Contents><Key>a&amp;b/&#228;</Key></Contents><Contents><Key>c</Key></Contents>"
      "</ListBucketResult>",
      "store");
  ASSERT_TRUE(page.ok());
  EXPECT_THAT(page->keys, ElementsAre("a&b/\xC3\xA4", "c"));
  EXPECT_EQ(page->next, "t=");
  EXPECT_EQ(read_s3_listing("<html>", "store").status().code(), StatusCode::kBadModel);
  EXPECT_EQ(
      read_s3_listing("<ListBucketResult><IsTruncated>true</IsTruncated>", "store").status().code(),
      StatusCode::kBadModel);
}

}  // namespace
}  // namespace quire
