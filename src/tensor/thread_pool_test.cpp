#include "tensor/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "tensor/cpu_count.h"

namespace quire {
namespace {

TEST(ThreadPool, RunCallsEachWorkerOnce) {
  for (const int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.num_threads(), threads);
    std::vector<int> calls(static_cast<std::size_t>(threads), 0);
    for (int round = 1; round <= 200; ++round) {
      pool.run([&](int worker) { ++calls[static_cast<std::size_t>(worker)]; });
      for (const int count : calls) ASSERT_EQ(count, round);
    }
  }
}

TEST(ThreadPool, AtLeastOneThread) {
  ThreadPool pool(0);
  EXPECT_EQ(pool.num_threads(), 1);
}

TEST(ThreadPool, ParallelForCoversEachIndexOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (const std::int64_t count : {0, 1, 2, 15, 16, 17, 1000}) {
      for (const std::int64_t grain : {1, 3, 16, 5000}) {
        std::vector<int> seen(static_cast<std::size_t>(count), 0);
        pool.parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end, int worker) {
          EXPECT_EQ(begin % grain, 0);
          EXPECT_LE(end - begin, grain);
          EXPECT_LT(worker, threads);
          for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
        });
        for (const int times : seen) ASSERT_EQ(times, 1);
      }
    }
  }
}

TEST(ThreadPool, GuidedChunksCoverEachIndexOnceAndShrink) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (const std::int64_t count : {0, 1, 2, 15, 16, 17, 1000}) {
      std::vector<std::int64_t> size_at(static_cast<std::size_t>(count), 0);
      std::vector<int> seen(static_cast<std::size_t>(count), 0);
      pool.parallel_for_guided(count, 2, 32, [&](std::int64_t begin, std::int64_t end, int worker) {
        EXPECT_LT(worker, threads);
        EXPECT_EQ(begin % 2, 0);
        size_at[static_cast<std::size_t>(begin)] = end - begin;
        for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
      });
      for (const int times : seen) ASSERT_EQ(times, 1);
      std::erase(size_at, 0);
      EXPECT_TRUE(std::is_sorted(size_at.rbegin(), size_at.rend()));
      const std::int64_t largest = std::clamp<std::int64_t>(count / threads, 2, 32);
      for (const std::int64_t size : size_at) EXPECT_LE(size, largest);
      if (count >= 15 && threads > 1) {
        EXPECT_LE(size_at.back(), 2);
      }
    }
  }
}

TEST(ThreadPool, WritesBeforeAndInsideRegionsAreSeen) {
  ThreadPool pool(4);
  std::vector<std::int64_t> values(4000);
  for (std::int64_t round = 0; round < 100; ++round) {
    for (auto& value : values) value = round;
    pool.parallel_for(4000, 10, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) values[static_cast<std::size_t>(i)] += i;
    });
    for (std::int64_t i = 0; i < 4000; ++i) {
      ASSERT_EQ(values[static_cast<std::size_t>(i)], round + i);
    }
  }
}

// Long enough for the workers, then for the caller, to be asleep.
TEST(ThreadPool, WakesWorkersAndCallerThatSleep) {
  ThreadPool pool(3);
  std::atomic<int> calls{0};
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    pool.run([&](int worker) {
      if (worker != 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      ++calls;
    });
  }
  EXPECT_EQ(calls.load(), 15);
}

// Regions at random distances around the spin limit, where a lost wake-up would hang.
TEST(ThreadPool, NoWakeUpIsLostAroundTheSpinLimit) {
  ThreadPool pool(2);
  std::atomic<int> calls{0};
  for (int round = 0; round < 2000; ++round) {
    const auto until =
        std::chrono::steady_clock::now() + std::chrono::nanoseconds(45000 + (round * 37) % 10000);
    while (std::chrono::steady_clock::now() < until) {
    }
    pool.run([&](int) { calls.fetch_add(1, std::memory_order_relaxed); });
  }
  EXPECT_EQ(calls.load(), 4000);
}

TEST(ThreadPool, TimesWhoWorksAndWhoWaits) {
  constexpr auto kLong = std::chrono::milliseconds(20);
  ThreadPool pool(2);
  if (pool.num_helpers() == 0) GTEST_SKIP() << "needs two CPUs";
  // Both sleep, so that the caller does not take the helper's share; the helper for longer.
  const auto sleep = [&pool, kLong] {
    pool.run([kLong](int worker) { std::this_thread::sleep_for(worker == 0 ? kLong / 2 : kLong); });
    return pool.region_times();
  };
  EXPECT_EQ(sleep().helped_ns, 0);  // off
  pool.set_timing(true);
  // The helper may come late, or the caller may get its CPU late: again then.
  ThreadPool::RegionTimes first;
  for (int round = 1; round <= 50 && first.waited_ns < 5'000'000; ++round) first = sleep();
  EXPECT_GE(first.helped_ns, 20'000'000);
  EXPECT_GE(first.waited_ns, 5'000'000);
  pool.set_timing(false);
  const auto second = sleep();
  EXPECT_EQ(second.helped_ns, first.helped_ns);
  EXPECT_EQ(second.waited_ns, first.waited_ns);
}

// A helper that has no CPU, here because it sleeps in its share, holds up nothing but that share.
TEST(ThreadPool, TheCallerTakesWhatHelpersHaveNotBegun) {
  ThreadPool pool(8);
  const std::thread::id caller = std::this_thread::get_id();
  std::vector<std::thread::id> who(8);
  // Seven shares, and each helper still sleeps in its first one when the caller is through. Where
  // the caller has no CPU for that long, again.
  std::ptrdiff_t own = 0;
  for (int round = 0; round < 20 || (round < 200 && own < 8 - pool.num_helpers()); ++round) {
    pool.run([&](int worker) {
      const std::thread::id self = std::this_thread::get_id();
      who[static_cast<std::size_t>(worker)] = self;
      if (self != caller) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    });
    EXPECT_EQ(who[0], caller);
    own = std::count(who.begin(), who.end(), caller);
  }
  EXPECT_GE(own, 8 - pool.num_helpers());
}

TEST(ThreadPool, NoMoreHelpersThanGrantedCpus) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(affinity_cpus().front(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  {
    ThreadPool pool(3);
    EXPECT_EQ(pool.num_helpers(), 0);
    EXPECT_EQ(pool.num_threads(), 3);
    std::vector<int> workers;
    pool.run([&](int worker) { workers.push_back(worker); });
    EXPECT_EQ(workers, (std::vector{0, 1, 2}));
    EXPECT_EQ(default_num_threads(), 1);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

TEST(ThreadPool, ManyMoreThreadsThanCpusFinish) {
  ThreadPool pool(32);
  std::atomic<int> calls{0};
  for (int round = 0; round < 50; ++round) pool.run([&](int) { ++calls; });
  EXPECT_EQ(calls.load(), 32 * 50);
}

TEST(ThreadPool, DefaultNumThreadsFitsTheAffinityMask) {
  EXPECT_GE(default_num_threads(), 1);
  EXPECT_LE(default_num_threads(), granted_cpu_count());
  EXPECT_LE(granted_cpu_count(), std::ssize(affinity_cpus()));
}

// A tree of files like the kernel's.
class SystemFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::path(::testing::TempDir()) /
            ("quire_system_" + std::to_string(::getpid()));
    std::filesystem::remove_all(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  std::filesystem::path root_;
};

using CgroupQuota = SystemFiles;
using PhysicalCores = SystemFiles;

TEST_F(PhysicalCores, HyperthreadsOfACoreCountOnce) {
  for (const int cpu : {0, 1, 2, 3}) {
    const std::string core = cpu % 2 == 0 ? "0,2\n" : "1,3\n";
    write("cpu" + std::to_string(cpu) + "/topology/core_cpus_list", core);
  }
  write("cpu4/topology/thread_siblings_list", "4-5\n");  // the older name
  write("cpu5/topology/thread_siblings_list", "4-5\n");
  EXPECT_EQ(physical_core_count(std::vector{0, 1, 2, 3, 4, 5}, root_), 3);
  EXPECT_EQ(physical_core_count(std::vector{1, 3}, root_), 1);
  EXPECT_EQ(physical_core_count(std::vector{0, 1}, root_), 2);
  EXPECT_EQ(physical_core_count(std::vector{6, 7}, root_), 2);  // nothing is known of them
}

TEST_F(CgroupQuota, VersionTwoTakesTheTightestAlongThePath) {
  write("cpu.max", "max 100000\n");
  write("a/cpu.max", "150000 100000\n");
  write("a/b/cpu.max", "800000 100000\n");
  EXPECT_EQ(cgroup_cpu_quota(root_, "0::/a/b\n"), 2);
  EXPECT_EQ(cgroup_cpu_quota(root_, "0::/\n"), std::nullopt);
}

TEST_F(CgroupQuota, VersionTwoInsideAContainerReadsTheMountPoint) {
  write("cpu.max", "300000 100000\n");
  EXPECT_EQ(cgroup_cpu_quota(root_, "0::/not/visible\n"), 3);
}

TEST_F(CgroupQuota, VersionOne) {
  write("cpu/x/cpu.cfs_quota_us", "50000\n");
  write("cpu/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpu_quota(root_, "3:cpuset:/x\n1:cpu:/x\n0::/\n"), 1);
  EXPECT_EQ(cgroup_cpu_quota(root_, "3:cpuset:/x\n0::/\n"), std::nullopt);
  write("cpu,cpuacct/y/cpu.cfs_quota_us", "-1\n");
  write("cpu,cpuacct/y/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpu_quota(root_, "1:cpu,cpuacct:/y\n"), std::nullopt);
}

TEST_F(CgroupQuota, UnreadableMeansNoLimit) {
  write("cpu.max", "garbage\n");
  EXPECT_EQ(cgroup_cpu_quota(root_, "0::/\nnonsense\n:\n"), std::nullopt);
}

}  // namespace
}  // namespace quire
