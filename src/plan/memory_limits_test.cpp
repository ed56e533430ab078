#include "plan/memory_limits.h"

#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace quire {
namespace {

namespace fs = std::filesystem;

// A made-up root folder.
class FakeRoot : public testing::Test {
 protected:
  void SetUp() override {
    root_ =
        fs::path(testing::TempDir()) /
        ("limits_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(root_);
    write("proc/meminfo", "MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    800 kB\n");
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  fs::path root_;
};

TEST_F(FakeRoot, WithoutCgroupTheMachineCounts) {
  const MemoryLimits limits = read_memory_limits(root_);
  EXPECT_EQ(limits.total, 1000U * 1024);
  EXPECT_EQ(limits.available, 800U * 1024);
  EXPECT_FALSE(limits.cgroup);
}

TEST_F(FakeRoot, NamesNumaNodes) {
  EXPECT_TRUE(read_memory_limits(root_).numa_nodes.empty());
  write("sys/devices/system/node/node10/cpulist", "\n");
  write("sys/devices/system/node/node2/cpulist", "0-3,8-11\n");
  write("sys/devices/system/node/node2/meminfo", "Node 2 MemTotal: 16 kB\nNode 2 MemFree: 8 kB\n");
  write("sys/devices/system/node/possible", "0-10\n");
  const auto nodes = read_memory_limits(root_).numa_nodes;
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].id, 2);
  EXPECT_EQ(nodes[0].cpus, "0-3,8-11");
  EXPECT_EQ(nodes[0].bytes, 16U * 1024);
  EXPECT_EQ(nodes[1].id, 10);
  EXPECT_EQ(nodes[1].cpus, "");
}

TEST_F(FakeRoot, TheSmallestLimitOnThePathCounts) {
  write("proc/self/cgroup", "0::/a/b\n");
  write("sys/fs/cgroup/a/memory.max", "500000\n");
  write("sys/fs/cgroup/a/memory.current", "300000\n");
  write("sys/fs/cgroup/a/memory.stat", "anon 7\ninactive_file 100000\n");
  write("sys/fs/cgroup/a/b/memory.max", "max\n");
  write("sys/fs/cgroup/a/b/memory.current", "1\n");
  const MemoryLimits limits = read_memory_limits(root_);
  EXPECT_TRUE(limits.cgroup);
  EXPECT_EQ(limits.total, 500000U);
  EXPECT_EQ(limits.available, 300000U);  // the page cache can be given back
}

TEST_F(FakeRoot, InAContainerTheMountIsTheGroup) {
  write("proc/self/cgroup", "0::/not/visible/here\n");
  write("sys/fs/cgroup/memory.max", "400000\n");
  write("sys/fs/cgroup/memory.current", "100000\n");
  const MemoryLimits limits = read_memory_limits(root_);
  EXPECT_EQ(limits.total, 400000U);
  EXPECT_EQ(limits.available, 300000U);
}

TEST_F(FakeRoot, VersionOneIsRead) {
  write("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/group\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/group/memory.limit_in_bytes", "600000\n");
  write("sys/fs/cgroup/memory/group/memory.usage_in_bytes", "200000\n");
  const MemoryLimits limits = read_memory_limits(root_);
  EXPECT_EQ(limits.total, 600000U);
  EXPECT_EQ(limits.available, 400000U);
}

TEST(MemoryLimits, ThisMachineHasMemory) {
  const MemoryLimits limits = read_memory_limits();
  EXPECT_GT(limits.available, 1U << 20);
  EXPECT_LE(limits.available, limits.total);
}

TEST(MemoryLimits, TouchedMemoryIsResident) {
  constexpr std::size_t kBytes = 64U << 20;
  const std::uint64_t before = resident_anonymous_bytes();
  const std::vector<char> block(kBytes, 'x');
  EXPECT_GE(resident_anonymous_bytes(), before + kBytes * 9 / 10);
  EXPECT_EQ(block[kBytes / 2], 'x');
}

}  // namespace
}  // namespace quire
