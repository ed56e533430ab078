#include "base/exhaustion.h"

#include <pthread.h>

#include <gtest/gtest.h>

#include "base/thread.h"

namespace quire {
namespace {

// While it lives the system has no thread to give: none has room for such a stack.
class NoThreads {
 public:
  NoThreads() {
    ::pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    ::pthread_attr_init(&huge);
    ::pthread_attr_setstacksize(&huge, std::size_t{1} << 47);
    EXPECT_EQ(::pthread_setattr_default_np(&huge), 0);
    ::pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    ::pthread_setattr_default_np(&before_);
    ::pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_;
};

TEST(Exhaustion, RefusedMemoryIsAnError) {
  const Status status = or_status([]() -> Status { throw std::bad_alloc(); });
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "out of memory");
  EXPECT_NE(status.remedy(), "");
  const Result<int> result = or_status([]() -> Result<int> { throw std::bad_alloc(); });
  EXPECT_EQ(result.status().code(), StatusCode::kUnavailable);
}

TEST(Exhaustion, WhatIsNotRefusedPassesThrough) {
  EXPECT_EQ(*or_status([]() -> Result<int> { return 7; }), 7);
  const Status wrong = or_status([] { return Status::config("wrong"); });
  EXPECT_EQ(wrong.code(), StatusCode::kConfig);
  EXPECT_THROW(
      static_cast<void>(or_status([]() -> Status { throw std::logic_error("a mistake"); })),
      std::logic_error);
}

TEST(Exhaustion, OnlyRefusedThreadsAreUnavailable) {
  const auto again = std::make_error_code(std::errc::resource_unavailable_try_again);
  EXPECT_EQ(status_of(std::system_error(again)).code(), StatusCode::kUnavailable);
  const auto broken = std::make_error_code(std::errc::broken_pipe);
  EXPECT_EQ(status_of(std::system_error(broken)).code(), StatusCode::kIoError);
}

TEST(Exhaustion, UntilMemoryBeginsAnew) {
  int calls = 0;
  until_memory([&] {
    if (++calls < 3) throw std::bad_alloc();
  });
  EXPECT_EQ(calls, 3);
}

TEST(NewThread, RunsUnderItsName) {
  char name[16] = {};
  new_thread("quire-named", [&] {
    ::pthread_getname_np(::pthread_self(), name, sizeof(name));
  }).join();
  EXPECT_STREQ(name, "quire-named");
}

TEST(NewThread, OneThatCannotStartIsNamed) {
  const NoThreads none;
  const auto thread = start_thread("quire-named", [] {});
  ASSERT_FALSE(thread.ok());
  EXPECT_EQ(thread.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(exit_code(thread.status().code()), 69);
  EXPECT_EQ(thread.status().message().find("cannot start the thread quire-named: "), 0U)
      << thread.status().message();
  EXPECT_NE(thread.status().remedy().find("ulimit -u"), std::string::npos);
}

}  // namespace
}  // namespace quire
