#include "serve/models/preparations.h"

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <semaphore>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "base/cpu_time.h"

namespace quire {
namespace {

using Pause = Preparations::Pause;

bool never() { return false; }
bool always() { return true; }

// Until `pause` says to give up, or so much of the processor's time is taken. Whether the latter.
bool compute(const Pause& pause, Duration time) {
  const Duration end = thread_cpu_time() + time;
  while (thread_cpu_time() < end) {
    if (pause()) return false;
  }
  return true;
}

void wait_until(const std::function<bool()>& is_so) {
  while (!is_so()) std::this_thread::yield();
}

TEST(Preparations, MakesACallOnceMoreThatIsLong) {
  std::atomic<int> begun = 0;
  std::promise<void> ended;
  Preparations preparations(never);
  ASSERT_TRUE(preparations
                  .post([&](const Pause& pause) {
                    ++begun;
                    if (!compute(pause, 2 * Preparations::kShort)) return false;
                    ended.set_value();
                    return true;
                  })
                  .ok());
  ended.get_future().wait();
  EXPECT_EQ(begun, 2);
}

TEST(Preparations, WhatIsShortWaitsForNothingThatIsLong) {
  std::atomic<int> num_long = 0;
  std::atomic<bool> goes_on = true;
  Preparations preparations(never);
  for (std::size_t i = 0; i < 2 * Preparations::kLongThreads; ++i) {
    ASSERT_TRUE(preparations
                    .post([&](const Pause& pause) {
                      while (goes_on) {
                        if (pause()) return false;
                      }
                      ++num_long;
                      return true;
                    })
                    .ok());
  }
  for (int i = 0; i < 3; ++i) {
    const auto ended = std::make_shared<std::promise<int>>();
    ASSERT_TRUE(preparations
                    .post([&, ended](const Pause&) {
                      ended->set_value(num_long);
                      return true;
                    })
                    .ok());
    EXPECT_EQ(ended->get_future().get(), 0);
  }
  goes_on = false;
  wait_until([&] { return num_long == 2 * Preparations::kLongThreads; });
}

TEST(Preparations, RestsWhileTheEngineComputes) {
  std::promise<Duration> wall_time;
  Preparations preparations(always);
  ASSERT_TRUE(preparations
                  .post([&](const Pause& pause) {
                    const std::int64_t begin = steady_now_ns();
                    compute(pause, Preparations::kFree + 10 * Preparations::kStint);
                    wall_time.set_value(Duration(steady_now_ns() - begin));
                    return true;
                  })
                  .ok());
  // Ten stints; the last may have no rest any more.
  EXPECT_GE(wall_time.get_future().get(), 9 * Preparations::kRest * Preparations::kStint);
}

TEST(Preparations, RefusesMoreThanMayWait) {
  std::binary_semaphore first(0);
  Preparations preparations(never);
  const auto waits = [&](const Pause&) {
    first.acquire();
    first.release();
    return true;
  };
  for (std::size_t i = 0; i < Preparations::kMaxWaiting; ++i) {
    ASSERT_TRUE(preparations.post(waits).ok());
  }
  const Status refused = preparations.post(waits);
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  first.release();
  wait_until([&] { return preparations.post(waits).ok(); });
}

TEST(Preparations, AtItsEndWhatRunsGivesUp) {
  std::promise<void> begun;
  std::atomic<bool> gave_up = false;
  Preparations preparations(never);
  ASSERT_TRUE(preparations
                  .post([&, first = true](const Pause& pause) mutable {
                    if (!std::exchange(first, false)) begun.set_value();
                    while (!pause()) {
                    }
                    gave_up = true;
                    return false;
                  })
                  .ok());
  begun.get_future().wait();
  gave_up = false;
  preparations.stop();
  EXPECT_TRUE(gave_up);
}

}  // namespace
}  // namespace quire
