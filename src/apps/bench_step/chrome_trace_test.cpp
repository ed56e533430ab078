#include "apps/bench_step/chrome_trace.h"

#include <filesystem>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/json.h"

namespace quire {
namespace chrome_trace_test {

constexpr Stage kStep = {StageKind::kWhole, "step"};
constexpr Stage kOdd = {StageKind::kKernel, "a \"quoted\" name"};

class ChromeTraceTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  json::array events() {
    const auto trace = read_json_file(path_, 1 << 24);
    EXPECT_TRUE(trace.ok()) << trace.status().to_string();
    return trace.ok() ? trace->as_object().at("traceEvents").as_array() : json::array();
  }

  std::string path_ =
      (std::filesystem::path(::testing::TempDir()) / ("quire_trace_" + std::to_string(::getpid())))
          .string();
};

TEST_F(ChromeTraceTest, WritesNamesAndSpansInsideOneAnother) {
  SpanRecorder spans(10);
  {
    const ScopedSpan step(&spans, kStep);
    step.get()->id = 9;
    const ScopedSpan op(&spans, kOdd);
    op.get()->cost = {.bytes = 64, .operations = 128};
  }
  auto trace = ChromeTrace::create(path_);
  ASSERT_TRUE(trace.ok());
  const Span& step = spans[1];
  ASSERT_TRUE(trace->begin_process("decode 1", step.start_ns).ok());
  ASSERT_TRUE(trace->add_thread("engine", spans, step.start_ns, step.end_ns).ok());
  ASSERT_TRUE(trace->finish().ok());

  const json::array all = events();
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].at("ph").as_string(), "M");
  EXPECT_EQ(all[0].at("name").as_string(), "process_name");
  EXPECT_EQ(all[0].at("args").at("name").as_string(), "decode 1");
  EXPECT_EQ(all[1].at("name").as_string(), "thread_name");
  EXPECT_EQ(all[1].at("args").at("name").as_string(), "engine");
  const json::value& op = all[2];
  EXPECT_EQ(op.at("ph").as_string(), "X");
  EXPECT_EQ(op.at("name").as_string(), kOdd.name);
  EXPECT_EQ(op.at("cat").as_string(), "kernel");
  EXPECT_EQ(op.at("args").at("bytes").to_number<int>(), 64);
  EXPECT_EQ(op.at("args").at("operations").to_number<int>(), 128);
  const json::value& outer = all[3];
  EXPECT_EQ(outer.at("args").at("step_id").to_number<int>(), 9);
  EXPECT_EQ(outer.at("ts").to_number<double>(), 0.0);
  EXPECT_EQ(outer.at("tid"), op.at("tid"));
  EXPECT_EQ(outer.at("pid"), op.at("pid"));
  const auto end = [](const json::value& event) {
    return event.at("ts").to_number<double>() + event.at("dur").to_number<double>();
  };
  EXPECT_GE(op.at("ts").to_number<double>(), 0.0);
  EXPECT_LE(end(op), end(outer) + 1e-6);
}

TEST_F(ChromeTraceTest, LeavesOutWhatLiesOutside) {
  SpanRecorder spans(10000);
  for (std::uint64_t id = 1; id <= 5000; ++id) {
    const ScopedSpan step(&spans, kStep);
    step.get()->id = id;
  }
  auto trace = ChromeTrace::create(path_);
  ASSERT_TRUE(trace.ok());
  ASSERT_TRUE(trace->begin_process("p", spans[0].start_ns).ok());
  ASSERT_TRUE(trace->add_thread("t", spans, spans[1].start_ns, spans[4998].end_ns).ok());
  ASSERT_TRUE(trace->finish().ok());
  const json::array all = events();
  ASSERT_EQ(all.size(), 2U + 4998U);
  EXPECT_EQ(all[2].at("args").at("step_id").to_number<int>(), 2);
  EXPECT_EQ(all.back().at("args").at("step_id").to_number<int>(), 4999);
}

TEST_F(ChromeTraceTest, NoSuchFolderIsAnError) {
  const auto trace = ChromeTrace::create(path_ + "/not/there");
  ASSERT_FALSE(trace.ok());
  EXPECT_EQ(trace.status().code(), StatusCode::kIoError);
}

}  // namespace chrome_trace_test
}  // namespace quire
