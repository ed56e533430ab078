#include "weights/hub_cache.h"

#include <gmock/gmock.h>

#include "weights/temp_folder.h"

namespace quire {
namespace {

constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";

TEST(HubCache, NamesOfRepositoriesAndPaths) {
  for (const char* name : {"org/name", "gpt2", "a.b-c_d/E0"})
    EXPECT_TRUE(is_hub_repo(name)) << name;
  for (const char* name : {"", "a/b/c", "/a", "a/", "a--b/c", "..", "a/..", "a b/c", "a/b.git"}) {
    EXPECT_FALSE(is_hub_repo(name)) << name;
  }
  for (const char* path : {"a", "a/b.json", "refs/pr/1", "...", "\xC3\xA4"}) {
    EXPECT_TRUE(stays_below(path)) << path;
  }
  for (const char* path :
       {"", "/a", "a/", "a//b", ".", "..", "a/../b", "a\\b", "a\nb", "\xFF", "a/."}) {
    EXPECT_FALSE(stays_below(path)) << path;
  }
  EXPECT_FALSE(stays_below(std::string(300, 'a')));
}

TEST(HubCache, AModelIsCalledAsItsRepository) {
  const std::string below = std::string("/c/hub/models--org--my--name/snapshots/") + kCommit;
  EXPECT_EQ(hub_model_name(below), "name");
  EXPECT_EQ(hub_model_name(std::string("/c/models--org--name/snapshots/") + kCommit + "/q/x.gguf"),
            "name");
  EXPECT_EQ(hub_model_name(std::string("/c/models--gpt2/snapshots/") + kCommit + "/"), "gpt2");
  EXPECT_EQ(hub_model_name("/c/models--org--name/snapshots/main"), "");
  EXPECT_EQ(hub_model_name("/c/models--org--name"), "");
}

TEST(HubCache, ShowsContentsAndRemembersRevisions) {
  const testing::TempFolder folder;
  const HubCache cache(folder.path());
  EXPECT_EQ(cache.commit_of("org/name", "main"), std::nullopt);
  std::filesystem::create_directories(cache.blob("org/name", "e").parent_path());
  std::ofstream(cache.blob("org/name", "e")) << "content";
  ASSERT_TRUE(cache.link("org/name", kCommit, "sub/file", "e").ok());
  ASSERT_TRUE(cache.link("org/name", kCommit, "sub/file", "e").ok());
  ASSERT_TRUE(cache.set_ref("org/name", "refs/pr/1", kCommit).ok());
  EXPECT_EQ(cache.commit_of("org/name", "refs/pr/1"), kCommit);
  EXPECT_EQ(cache.commit_of("org/name", kCommit), kCommit);
  EXPECT_EQ(cache.commit_of("org/name", "../blobs/e"), std::nullopt);
  EXPECT_EQ(std::filesystem::file_size(cache.snapshot("org/name", kCommit) / "sub/file"), 7U);
  const auto models = cache.list();
  ASSERT_TRUE(models.ok());
  ASSERT_EQ(models->size(), 1U);
  EXPECT_EQ(models->front().bytes, 7U);
  EXPECT_THAT(models->front().revisions.front().refs, ::testing::ElementsAre("refs/pr/1"));
  const auto removal = cache.plan_removal("org/name", "refs/pr/1");
  ASSERT_TRUE(removal.ok());
  EXPECT_EQ(removal->bytes, 7U);
  ASSERT_TRUE(remove_paths(*removal).ok());
  EXPECT_TRUE(cache.list()->empty());
}

}  // namespace
}  // namespace quire
