#include "tier/block_file.h"

#include <algorithm>
#include <csignal>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace quire {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kBlockBytes = 96;

BlockName name_of(std::uint64_t number) {
  const std::array<TokenId, 1> token = {static_cast<TokenId>(number)};
  return next_block_name(root_block_name(0, 0), token);
}

// What the block of that number holds.
std::vector<std::byte> content_of(std::uint64_t number) {
  std::vector<std::byte> bytes(kBlockBytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(random_bits(number, i));
  }
  return bytes;
}

class BlockFileTest : public testing::Test {
 protected:
  void SetUp() override {
    // In memory, where there is such a folder: others may keep the disk busy.
    const bool shared = ::access("/dev/shm", W_OK) == 0;
    std::string pattern = (shared ? "/dev/shm" : testing::TempDir()) + "/tier_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Result<std::unique_ptr<BlockFile>> open(std::int64_t max_blocks = 8, std::uint64_t model = 1) {
    return BlockFile::open({.folder = folder_ / "tier",
                            .identity = name_of(1'000'000 + model),
                            .block_bytes = kBlockBytes,
                            .max_blocks = max_blocks});
  }
  static std::optional<BlockName> put(BlockFile& file, std::uint64_t number) {
    std::optional<BlockName> replaced;
    EXPECT_TRUE(file.put(name_of(number), content_of(number), replaced).ok());
    return replaced;
  }
  // Whether the block is there; then it is the right one.
  static bool has(BlockFile& file, std::uint64_t number) {
    std::vector<std::byte> bytes(kBlockBytes);
    if (!file.get(name_of(number), bytes)) return false;
    EXPECT_EQ(bytes, content_of(number)) << "block " << number;
    return true;
  }
  std::filesystem::path path(const char* name) const { return folder_ / "tier" / name; }

  std::filesystem::path folder_;
};

TEST_F(BlockFileTest, KeepsBlocksFromOneRunToTheNext) {
  {
    auto file = open();
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    for (std::uint64_t i = 0; i < 5; ++i) EXPECT_EQ(put(**file, i), std::nullopt);
    EXPECT_EQ(put(**file, 3), std::nullopt);
    EXPECT_EQ((*file)->num_blocks(), 5);
    EXPECT_TRUE(has(**file, 4));
    EXPECT_FALSE(has(**file, 5));
  }
  auto file = open();
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->names().size(), 5U);
  for (std::uint64_t i = 0; i < 5; ++i) EXPECT_TRUE(has(**file, i));
  EXPECT_EQ((*file)->num_damaged(), 0);
}

TEST_F(BlockFileTest, GivesPlacesInTurnToNewBlocksButSparesThoseThatWereRead) {
  auto file = open(3);
  for (std::uint64_t i = 0; i < 3; ++i) put(**file, i);
  EXPECT_TRUE(has(**file, 0));
  EXPECT_EQ(put(**file, 3), name_of(1));
  EXPECT_EQ(put(**file, 4), name_of(2));
  EXPECT_EQ(put(**file, 5), name_of(0)) << "it has had its second chance";
  EXPECT_EQ((*file)->num_blocks(), 3);
  EXPECT_FALSE(has(**file, 1));
}

TEST_F(BlockFileTest, BeginsAnewForAnotherModelAndGoesOnWithAnotherSize) {
  put(**open(), 1);
  EXPECT_TRUE(has(**open(4), 1)) << "smaller";
  EXPECT_TRUE(has(**open(100), 1)) << "larger";
  auto other = open(8, /*model=*/2);
  EXPECT_EQ((*other)->num_blocks(), 0);
  EXPECT_EQ((*other)->num_damaged(), 1) << "the file before";
}

TEST_F(BlockFileTest, IsOneProcessAlone) {
  const auto first = open();
  const auto second = open();
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(second.status().message(), HasSubstr("in use by another process"));
}

TEST_F(BlockFileTest, SaysAtOnceWhereItCannotWrite) {
  std::ofstream(folder_ / "tier") << "a file";
  EXPECT_EQ(open().status().code(), StatusCode::kIoError);
}

// A limit on files stands for a full disk.
TEST_F(BlockFileTest, SaysWhatHasNoRoomAtOnceAndLaterLosesNoOtherBlock) {
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  const auto limit = [&](rlim_t bytes) {
    const struct rlimit limited = {.rlim_cur = bytes, .rlim_max = before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limited), 0);
  };
  limit(1000);
  EXPECT_EQ(open(64).status().code(), StatusCode::kIoError);
  limit(before.rlim_cur);
  auto file = open(64);
  put(**file, 1);
  limit(64);
  std::optional<BlockName> replaced;
  EXPECT_EQ((*file)->put(name_of(2), content_of(2), replaced).code(), StatusCode::kIoError);
  limit(before.rlim_cur);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(has(**file, 1));
  EXPECT_FALSE(has(**file, 2));
}

// Whatever it was doing.
TEST_F(BlockFileTest, SurvivesBeingKilled) {
  constexpr int kKills = 12;
  std::size_t most = 0;
  for (int kill = 0; kill < kKills; ++kill) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto file = open(64);
      for (std::uint64_t i = 0;; ++i) {
        std::optional<BlockName> replaced;
        const std::uint64_t number = (i * 37 + static_cast<std::uint64_t>(kill)) % 200;
        if (!file.ok() || !(*file)->put(name_of(number), content_of(number), replaced).ok()) {
          ::_exit(1);
        }
      }
    }
    ::usleep(1000 * static_cast<useconds_t>(5 + kill));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    auto file = open(64);
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    most = std::max(most, (*file)->names().size());
    for (std::uint64_t i = 0; i < 200; ++i) (void)has(**file, i);
  }
  EXPECT_GT(most, 30U);
}

std::string read_all(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A new file: some file systems wait for the disk where one is written anew.
void write(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << bytes;
}

// Flips, cuts, moves or makes up bytes of one of the two files.
std::string damaged(std::string bytes, std::uint64_t seed) {
  std::uint64_t counter = 0;
  const auto random = [&](std::uint64_t below) { return random_bits(seed, counter++) % below; };
  const std::uint64_t kind = random(4);
  if (kind == 0) {
    for (std::uint64_t i = random(8) + 1; i > 0; --i) {
      char& byte = bytes[random(bytes.size())];
      byte = static_cast<char>(byte ^ static_cast<char>(1 + random(255)));
    }
  } else if (kind == 1) {
    bytes.resize(random(bytes.size()));
  } else if (kind == 2) {
    const std::uint64_t count = 1 + random(std::min<std::uint64_t>(bytes.size() / 2, 200));
    const std::uint64_t from = random(bytes.size() - count);
    bytes.replace(random(bytes.size() - count), count, bytes.substr(from, count));
  } else {
    const std::uint64_t count = 1 + random(200);
    for (std::uint64_t i = random(bytes.size()), n = 0; n < count && i < bytes.size(); ++i, ++n) {
      bytes[i] = static_cast<char>(random(256));
    }
  }
  return bytes;
}

TEST_F(BlockFileTest, DamageCostsBlocksAndNeverGivesAnothersBytes) {
  constexpr std::uint64_t kFiles = 10'000;
  {
    auto file = open(16);
    for (std::uint64_t i = 0; i < 20; ++i) put(**file, i);
  }
  const std::string index = read_all(path("index"));
  const std::string blocks = read_all(path("blocks"));
  std::int64_t num_found = 0;
  std::int64_t num_damaged = 0;
  for (std::uint64_t seed = 1; seed <= kFiles; ++seed) {
    const bool of_index = seed % 2 == 0;
    write(path("index"), of_index ? damaged(index, seed) : index);
    write(path("blocks"), of_index ? blocks : damaged(blocks, seed));
    auto file = open(16);
    ASSERT_TRUE(file.ok()) << "seed " << seed << ": " << file.status().to_string();
    for (std::uint64_t i = 0; i < 20; ++i) num_found += has(**file, i) ? 1 : 0;
    num_damaged += (*file)->num_damaged();
    if (seed % 50 == 0) {
      put(**file, 100);
      EXPECT_TRUE(has(**file, 100)) << "it goes on, seed " << seed;
    }
    if (HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_GT(num_damaged, static_cast<std::int64_t>(kFiles));
  EXPECT_GT(num_found, static_cast<std::int64_t>(kFiles * 10)) << "the rest is as it was";
}

}  // namespace
}  // namespace quire
