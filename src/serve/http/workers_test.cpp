#include "serve/http/workers.h"

#include <atomic>
#include <future>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(Workers, TasksOfOneThreadRunInOrder) {
  std::vector<int> ran;
  std::promise<void> done;
  Workers workers(1);
  for (int i = 0; i < 100; ++i) workers.post([&ran, i] { ran.push_back(i); });
  workers.post([&] { done.set_value(); });
  done.get_future().wait();
  ASSERT_EQ(ran.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(ran[static_cast<std::size_t>(i)], i);
}

TEST(Workers, ATaskThatThrowsTakesNoOtherWithIt) {
  Workers workers(1);
  workers.post([] { throw std::bad_alloc(); });
  workers.post([] { throw std::runtime_error("a mistake"); });
  std::promise<void> done;
  workers.post([&] { done.set_value(); });
  done.get_future().wait();
}

TEST(Workers, ThreadsRunTasksAtOnce) {
  Workers workers(2);
  std::promise<void> first;
  std::promise<void> both;
  workers.post([&] {
    first.get_future().wait();  // for the other task
    both.set_value();
  });
  workers.post([&] { first.set_value(); });
  both.get_future().wait();
}

TEST(Workers, StopWaitsForWhatHasBegunAndTakesNoMore) {
  std::atomic<bool> ended = false;
  std::atomic<bool> late = false;
  {
    Workers workers(1);
    std::promise<void> begun;
    std::promise<void> go_on;
    workers.post([&] {
      begun.set_value();
      go_on.get_future().wait();
      ended = true;
    });
    begun.get_future().wait();
    std::thread stopping([&] { workers.stop(); });
    go_on.set_value();
    stopping.join();
    EXPECT_TRUE(ended);
    workers.post([&] { late = true; });
  }
  EXPECT_FALSE(late);
}

}  // namespace
}  // namespace quire
