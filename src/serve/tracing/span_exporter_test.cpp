#include "serve/tracing/span_exporter.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "base/json.h"

namespace quire {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::chrono::minutes kHangs(2);  // that long takes only what hangs

// A collector without a network: answers as the test says, 200 when it says nothing.
struct Collector {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<PostResult> answers;
  std::vector<std::string> bodies;
  std::vector<Clock::time_point> times;
  bool open = true;  // closed: posts hang until given up

  std::size_t num_posts() {
    const std::lock_guard lock(mutex);
    return bodies.size();
  }
  void wait_for_posts(std::size_t count) {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, kHangs, [&] { return bodies.size() >= count; }));
  }
  std::size_t num_spans(std::size_t post) {
    const std::lock_guard lock(mutex);
    const auto body = parse_json(bodies.at(post), "body");
    return body->at_pointer("/resourceSpans/0/scopeSpans/0/spans").as_array().size();
  }
};

class FakePost final : public HttpPost {
 public:
  explicit FakePost(std::shared_ptr<Collector> collector) : collector_(std::move(collector)) {}

  PostResult post(const std::string& body, const std::function<bool()>& give_up) override {
    std::unique_lock lock(collector_->mutex);
    collector_->bodies.push_back(body);
    collector_->times.push_back(Clock::now());
    collector_->changed.notify_all();
    while (!collector_->open) {
      lock.unlock();
      if (give_up()) return {.status = 0, .retry_after = {}, .body = "", .error = "given up"};
      std::this_thread::sleep_for(milliseconds(1));
      lock.lock();
    }
    PostResult answer = {.status = 200, .retry_after = {}, .body = "{}", .error = ""};
    if (!collector_->answers.empty()) {
      answer = collector_->answers.front();
      collector_->answers.pop_front();
    }
    return answer;
  }

 private:
  std::shared_ptr<Collector> collector_;
};

PostResult status(int code, std::string body = "") {
  return {.status = code, .retry_after = {}, .body = std::move(body), .error = ""};
}

std::vector<TraceSpan> spans(std::size_t count) {
  std::vector<TraceSpan> list(count);
  IdSource ids;
  for (TraceSpan& span : list) {
    span.trace_id = ids.trace_id();
    span.span_id = ids.next_span_id();
    span.name = "x";
  }
  return list;
}

class SpanExporterTest : public testing::Test {
 protected:
  SpanExporterTest() {
    config_.url = "http://collector";
    config_.batch_delay = milliseconds(1);
    config_.first_backoff = milliseconds(2);
    config_.longest_backoff = milliseconds(20);
  }

  void start() {
    exporter_ = std::make_unique<SpanExporter>(config_, std::make_unique<FakePost>(collector_));
  }
  // Waits until `holds` is true of the counts.
  SpanExportStats await(const std::function<bool(const SpanExportStats&)>& holds) {
    const auto end = Clock::now() + kHangs;
    SpanExportStats stats = exporter_->stats();
    while (!holds(stats) && Clock::now() < end) {
      std::this_thread::sleep_for(milliseconds(1));
      stats = exporter_->stats();
    }
    EXPECT_TRUE(holds(stats));
    return stats;
  }

  SpanExporterConfig config_;
  std::shared_ptr<Collector> collector_ = std::make_shared<Collector>();
  std::unique_ptr<SpanExporter> exporter_;
};

TEST_F(SpanExporterTest, SendsWhatItIsGiven) {
  start();
  exporter_->add(spans(3));
  const auto stats = await([](const auto& now) { return now.exported == 3; });
  EXPECT_EQ(stats.dropped_queue_full + stats.dropped_rejected + stats.dropped_unreachable, 0);
}

TEST_F(SpanExporterTest, ABatchGoesWhenItIsFullOrItsTimeIsUp) {
  config_.batch_delay = seconds(100);
  config_.max_batch_spans = 10;
  start();
  exporter_->add(spans(9));
  std::this_thread::sleep_for(milliseconds(30));
  EXPECT_EQ(collector_->num_posts(), 0U);
  exporter_->add(spans(4));
  await([](const auto& now) { return now.exported == 10; });
  EXPECT_EQ(collector_->num_spans(0), 10U);
  exporter_.reset();  // the rest, which waits for more
  EXPECT_EQ(collector_->num_posts(), 2U);
  EXPECT_EQ(collector_->num_spans(1), 3U);
}

TEST_F(SpanExporterTest, TriesAgainAfterTheCodesThatAskForIt) {
  for (const int code : {429, 502, 503, 504}) collector_->answers.push_back(status(code));
  collector_->answers.push_back({.status = 0, .retry_after = {}, .body = "", .error = "refused"});
  start();
  exporter_->add(spans(2));
  await([](const auto& now) { return now.exported == 2; });
  EXPECT_EQ(collector_->num_posts(), 6U);
  EXPECT_EQ(collector_->bodies.front(), collector_->bodies.back());
}

TEST_F(SpanExporterTest, WaitsLongerFromTryToTry) {
  config_.first_backoff = milliseconds(20);
  config_.longest_backoff = milliseconds(40);
  for (int i = 0; i < 3; ++i) collector_->answers.push_back(status(503));
  start();
  exporter_->add(spans(1));
  await([](const auto& now) { return now.exported == 1; });
  const std::lock_guard lock(collector_->mutex);
  ASSERT_EQ(collector_->times.size(), 4U);
  EXPECT_GE(collector_->times[1] - collector_->times[0], milliseconds(10));
  EXPECT_GE(collector_->times[2] - collector_->times[1], milliseconds(20));
  EXPECT_GE(collector_->times[3] - collector_->times[2], milliseconds(20));
}

TEST_F(SpanExporterTest, WaitsAsLongAsRetryAfterSays) {
  PostResult busy = status(429);
  busy.retry_after = seconds(1);
  collector_->answers.push_back(busy);
  start();
  exporter_->add(spans(1));
  await([](const auto& now) { return now.exported == 1; });
  const std::lock_guard lock(collector_->mutex);
  EXPECT_GE(collector_->times.at(1) - collector_->times.at(0), milliseconds(1000));
}

TEST_F(SpanExporterTest, DropsWhatTheCollectorRefuses) {
  for (const int code : {400, 401, 404, 413, 500, 301}) {
    collector_->answers = {status(code, "no")};
    start();
    exporter_->add(spans(2));
    await([](const auto& now) { return now.dropped_rejected == 2; });
    exporter_.reset();
  }
  EXPECT_EQ(collector_->num_posts(), 6U);
}

TEST_F(SpanExporterTest, CountsPartialSuccess) {
  collector_->answers = {
      status(200, R"({"partialSuccess": {"rejectedSpans": "2", "errorMessage": "too old"}})"),
      status(200, R"({"partialSuccess": {"rejectedSpans": 100}})"), status(200, "no JSON")};
  start();
  exporter_->add(spans(5));
  await([](const auto& now) { return now.exported == 3 && now.dropped_rejected == 2; });
  exporter_->add(spans(1));
  await([](const auto& now) { return now.dropped_rejected == 3; });
  exporter_->add(spans(1));
  await([](const auto& now) { return now.exported == 4; });
}

TEST_F(SpanExporterTest, AFullQueueDropsWholeRequestsAndNeverBlocks) {
  config_.max_queued_spans = 10;
  config_.max_batch_spans = 10;
  collector_->open = false;
  config_.flush_time = milliseconds(1);
  start();
  exporter_->add(spans(2));
  collector_->wait_for_posts(1);  // and hangs
  for (int i = 0; i < 4; ++i) exporter_->add(spans(3));
  EXPECT_EQ(exporter_->stats().dropped_queue_full, 3);
  exporter_->add(spans(1));
  EXPECT_EQ(exporter_->stats().dropped_queue_full, 3);
}

TEST_F(SpanExporterTest, GivesUpABatchAfterItsTime) {
  config_.retry_time = seconds(1);  // far longer than the wait before the second try
  for (int i = 0; i < 10'000; ++i) collector_->answers.push_back(status(503));
  start();
  // A batch of which nothing came but the first try met a thread without a processor: again then.
  std::size_t num_batches = 0;
  do {
    exporter_->add(spans(2));
    const auto dropped = static_cast<std::int64_t>(2 * ++num_batches);
    await([&](const auto& now) { return now.dropped_unreachable == dropped; });
  } while (collector_->num_posts() == num_batches && num_batches < 10);
  EXPECT_GT(collector_->num_posts(), num_batches);
}

TEST_F(SpanExporterTest, TheEndFlushesWhatWaits) {
  config_.batch_delay = seconds(100);
  config_.max_batch_spans = 4;
  start();
  exporter_->add(spans(3));
  exporter_.reset();
  EXPECT_EQ(collector_->num_posts(), 1U);
}

TEST_F(SpanExporterTest, TheEndCutsAWaitShort) {
  config_.first_backoff = seconds(40);
  collector_->answers.push_back(status(503));
  start();
  exporter_->add(spans(3));
  collector_->wait_for_posts(1);
  std::this_thread::sleep_for(milliseconds(20));
  const auto begin = Clock::now();
  exporter_.reset();
  EXPECT_LT(Clock::now() - begin, kHangs);
  EXPECT_EQ(collector_->num_posts(), 2U);
}

TEST_F(SpanExporterTest, TheEndDoesNotWaitForADeadCollector) {
  config_.flush_time = milliseconds(50);
  collector_->open = false;
  start();
  exporter_->add(spans(3));
  const auto begin = Clock::now();
  exporter_.reset();
  EXPECT_LT(Clock::now() - begin, kHangs);
}

// The real client against a port where nobody listens.
TEST(HttpPostTest, SaysWhyThereIsNoAnswer) {
  const auto post = make_http_post("http://127.0.0.1:1/v1/traces", {}, seconds(5));
  ASSERT_TRUE(post.ok());
  const PostResult result = (*post)->post("{}", [] { return false; });
  EXPECT_EQ(result.status, 0);
  EXPECT_FALSE(result.error.empty());
}

}  // namespace
}  // namespace quire
