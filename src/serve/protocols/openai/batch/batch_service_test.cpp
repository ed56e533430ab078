#include "serve/protocols/openai/batch/batch_service.h"

#include <map>

#include <gmock/gmock.h>

#include "serve/http/http_error.h"
#include "serve/protocols/openai/batch/batch_fixture.h"

namespace quire {
namespace {

using test::BatchServiceTest;
using test::completion;
using test::input_line;
using test::input_lines;
using testing::HasSubstr;

TEST_F(BatchServiceTest, RunsABatch) {
  std::mutex mutex;
  std::vector<std::string> bodies;
  open([&](const std::shared_ptr<Exchange>& exchange) {
    const std::lock_guard lock(mutex);
    bodies.push_back(exchange->request().body);
    if (exchange->request().body.find("bad") != std::string::npos) {
      return exchange->respond(http_error(400, "no"));
    }
    exchange->start_stream({.content_type = "application/json"});
    exchange->write(R"({"id":"c","usage":{"prompt_tokens":3,)");
    exchange->write(R"("completion_tokens":2},"x":0.10000000000000001})");
    exchange->finish();
  });
  const std::string precise = R"({"t" :0.30000000000000004,"s":"}\"{", "s":[1, 2]})";
  const std::string id =
      client().batch(input_line("a", precise) + "\r\n" + input_line("b", R"({"prompt":"bad"})") +
                     input_line("c", R"({"stream":true})") +
                     R"({"body":{},"url":"/v1/completions","method":"POST","custom_id":"d"})");
  const json::object batch = client().wait_for(id, "completed");
  EXPECT_EQ(batch.at("request_counts"),
            (json::value{{"total", 4}, {"completed", 2}, {"failed", 2}}));
  EXPECT_EQ(batch.at("usage").as_object().at("total_tokens"), 10);
  EXPECT_EQ(batch.at("metadata"), (json::value{{"k", "v"}}));
  EXPECT_FALSE(batch.contains("errors"));
  EXPECT_THAT(bodies, testing::Contains(precise));  // byte for byte
  EXPECT_EQ(bodies.size(), 3U);                     // the stream was never asked

  const auto output = client().lines(batch, "output_file_id");
  ASSERT_EQ(output.size(), 2U);
  for (const json::object& line : output) {
    EXPECT_TRUE(line.at("error").is_null());
    EXPECT_EQ(line.at("response").as_object().at("status_code"), 200);
    EXPECT_EQ(line.at("response").as_object().at("request_id"), line.at("id"));
    EXPECT_EQ(line.at("response").as_object().at("body").as_object().at("id"), "c");
  }
  const auto errors = client().lines(batch, "error_file_id");
  ASSERT_EQ(errors.size(), 2U);
  for (const json::object& line : errors) {
    const auto& response = line.at("response").as_object();
    EXPECT_EQ(response.at("status_code"), 400);
    const auto& error = response.at("body").as_object().at("error").as_object();
    EXPECT_EQ(error.at("message").as_string() == "no", line.at("custom_id") == "b");
    EXPECT_EQ(error.at("param") == "stream", line.at("custom_id") == "c");
  }
  const std::string output_id(batch.at("output_file_id").as_string());
  EXPECT_EQ(client().get("/v1/files/" + output_id).at("purpose"), "batch_output");
  EXPECT_EQ(client().create(output_id).status, 400);  // no input
}

TEST_F(BatchServiceTest, SaysWhatIsWrongWithAnInputFile) {
  open(answer_at_once, {.max_lines = 9, .max_line_bytes = 1000});
  const auto errors_of = [&](std::string_view content) {
    const json::object batch = client().wait_for(client().batch(content), "failed");
    EXPECT_TRUE(batch.contains("failed_at"));
    EXPECT_FALSE(batch.contains("output_file_id"));
    std::vector<std::string> found;
    for (const auto& item : batch.at("errors").as_object().at("data").as_array()) {
      const json::object& error = item.as_object();
      EXPECT_FALSE(error.at("message").as_string().empty());
      found.push_back(fmt::format("{} {} {}", std::string_view(error.at("code").as_string()),
                                  json::serialize(error.at("line")),
                                  json::serialize(error.at("param"))));
    }
    return found;
  };
  using Errors = std::vector<std::string>;
  EXPECT_EQ(errors_of("\n \n"), (Errors{"empty_file null null"}));
  EXPECT_EQ(errors_of(input_line("a") + "{nope\n[]\n" + input_line("a") +
                      R"({"method":"POST","url":"/v1/completions","body":{}})"
                      "\n"
                      R"({"custom_id":"b","method":"GET","url":"/v1/completions","body":{}})"
                      "\n"
                      R"({"custom_id":"c","method":"POST","url":"/v1/embeddings","body":{}})"
                      "\n"
                      R"({"custom_id":"d","method":"POST","url":"/v1/completions","body":[]})"
                      "\n" +
                      std::string(1001, 'x') + "\n" + input_line(std::string(513, 'i'))),
            (Errors{"invalid_json_line 2 null", "invalid_json_line 3 null",
                    "duplicate_custom_id 4 \"custom_id\"",
                    "missing_required_parameter 5 \"custom_id\"", "invalid_method 6 \"method\"",
                    "invalid_url 7 \"url\"", "missing_required_parameter 8 \"body\"",
                    "line_too_long 9 null", "invalid_custom_id 10 \"custom_id\""}));
  EXPECT_EQ(errors_of(input_lines(10)), (Errors{"too_many_requests 10 null"}));
}

TEST_F(BatchServiceTest, RefusesBatches) {
  open(answer_at_once, {.max_active_batches = 0});
  const std::string file = client().file(input_lines(1));
  const auto error_of = [&](std::string_view fields) {
    const HttpResponse response =
        client().call("POST", "/v1/batches", "{" + std::string(fields) + "}");
    return fmt::format(
        "{} {}", response.status,
        json::serialize(client().object_of(response).at("error").as_object().at("param")));
  };
  const std::string right = fmt::format(
      R"("input_file_id":"{}","endpoint":"/v1/completions","completion_window":"24h")", file);
  EXPECT_EQ(error_of(R"("endpoint":"/v1/completions","completion_window":"24h")"),
            "400 \"input_file_id\"");
  EXPECT_EQ(
      error_of(R"("input_file_id":"f","endpoint":"/v1/embeddings","completion_window":"24h")"),
      "400 \"endpoint\"");
  EXPECT_EQ(
      error_of(R"("input_file_id":"f","endpoint":"/v1/completions","completion_window":"1h")"),
      "400 \"completion_window\"");
  EXPECT_EQ(error_of(right + R"(,"metadata":{"a":1})"), "400 \"metadata\"");
  EXPECT_EQ(error_of(right + R"(,"output_expires_after":{"anchor":"created_at","seconds":1})"),
            "400 \"output_expires_after\"");
  EXPECT_EQ(
      error_of(R"("input_file_id":"f","endpoint":"/v1/completions","completion_window":"24h")"),
      "404 \"input_file_id\"");
  EXPECT_EQ(error_of(right), "507 null");  // too many
  EXPECT_EQ(client().call("GET", "/v1/batches/batch_x").status, 404);
  EXPECT_EQ(client().call("POST", "/v1/batches/batch_x/cancel").status, 404);
}

TEST_F(BatchServiceTest, BoundsLinesInFlightAndTriesAgainWhereTheServerIsFull) {
  std::mutex mutex;
  std::map<std::string, int> tries;
  int in_flight = 0;
  int most = 0;
  std::vector<std::thread> threads;
  open(
      [&](const std::shared_ptr<Exchange>& exchange) {
        const std::lock_guard lock(mutex);
        const int attempt = ++tries[exchange->request().request_id];
        most = std::max(most, ++in_flight);
        threads.emplace_back([&, exchange, attempt, first = tries.size() == 1] {
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
          {
            const std::lock_guard guard(mutex);
            --in_flight;
          }
          if (first && attempt == 1) return exchange->respond(http_error(429, "full"));
          exchange->respond(completion());
        });
      },
      {.max_lines_in_flight = 4});
  const json::object batch = client().wait_for(client().batch(input_lines(50)), "completed");
  EXPECT_EQ(batch.at("request_counts").as_object().at("completed"), 50);
  EXPECT_EQ(client().lines(batch, "output_file_id").size(), 50U);
  service_->stop();
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most, 4);
  EXPECT_EQ(tries.size(), 50U);
  EXPECT_EQ(threads.size(), 51U);
}

// A handler that answers a few and keeps the others until their client goes away.
struct Kept {
  std::mutex mutex;
  int calls = 0;
  int gone = 0;
  std::vector<std::shared_ptr<Exchange>> exchanges;

  HttpHandler handler(int answered) {
    return [this, answered](const std::shared_ptr<Exchange>& exchange) {
      const std::lock_guard lock(mutex);
      if (++calls <= answered) return exchange->respond(completion());
      exchange->on_disconnect([this] { ++gone; });
      exchanges.push_back(exchange);
    };
  }
  int num_kept() {
    const std::lock_guard lock(mutex);
    return static_cast<int>(exchanges.size());
  }
  void wait_for(int count) {
    while (num_kept() < count) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(num_kept(), count);
  }
};

TEST_F(BatchServiceTest, CancelKeepsWhatIsDone) {
  Kept kept;
  open(kept.handler(10));
  const std::string file = client().file(input_lines(100));
  const std::string id = client().id_of(client().create(file));
  kept.wait_for(32);
  EXPECT_EQ(client().call("DELETE", "/v1/files/" + file).status, 409);
  const HttpResponse cancelled = client().call("POST", "/v1/batches/" + id + "/cancel");
  EXPECT_THAT(cancelled.body, HasSubstr("\"status\":\"cancelling\""));
  const json::object batch = client().wait_for(id, "cancelled");
  EXPECT_EQ(kept.gone, 32);
  EXPECT_EQ(kept.calls, 42);
  EXPECT_EQ(client().lines(batch, "output_file_id").size(), 10U);
  for (const auto& exchange : kept.exchanges) exchange->respond(completion());  // too late
  EXPECT_EQ(client().call("POST", "/v1/batches/" + id + "/cancel").status, 409);
  EXPECT_EQ(client().call("DELETE", "/v1/files/" + file).status, 200);
}

TEST_F(BatchServiceTest, ExpiresWithARecordOfEachLine) {
  Kept kept;
  open(kept.handler(10));
  const std::string id = client().batch(input_lines(600));
  kept.wait_for(32);
  now_ += 24 * 3600;
  const json::object batch = client().wait_for(id, "expired");
  EXPECT_EQ(client().lines(batch, "output_file_id").size(), 10U);
  const auto errors = client().lines(batch, "error_file_id");
  ASSERT_EQ(errors.size(), 590U);
  EXPECT_EQ(errors[0].at("error").as_object().at("code"), "batch_expired");
  EXPECT_TRUE(errors[0].at("response").is_null());
  now_ += 30 * 24 * 3600;  // and their files go in their time
  service_->stop();
  open(answer_at_once);
  while (!client().get("/v1/files").at("data").as_array().empty()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

TEST_F(BatchServiceTest, StopsPromptlyAndGoesOnLater) {
  Kept kept;
  open(kept.handler(10));
  const std::string id = client().batch(input_lines(60));
  kept.wait_for(32);
  const auto begin = std::chrono::steady_clock::now();
  std::thread other([this] { service_->stop(); });  // a signal and the end of the program
  service_->stop();
  other.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(1));
  EXPECT_EQ(kept.gone, 32);
  EXPECT_EQ(client().get("/v1/batches/" + id).at("status"), "in_progress");
  open(answer_at_once);
  const json::object batch = client().wait_for(id, "completed");
  EXPECT_EQ(client().lines(batch, "output_file_id").size(), 60U);
}

TEST_F(BatchServiceTest, WaitsWhereThereIsNoRoomForResults) {
  std::atomic<int> calls = 0;
  open(
      [&](const std::shared_ptr<Exchange>& exchange) {
        ++calls;
        exchange->respond({.body = "\"" + std::string(10'000, 'x') + "\""});
      },
      {.max_total_bytes = 200'000});
  const std::string filler = client().file(std::string(150'000, 'f'));
  const std::string id = client().batch(input_lines(16));
  while (calls < 16) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(client().get("/v1/batches/" + id).at("status"), "in_progress");
  EXPECT_EQ(client().call("DELETE", "/v1/files/" + filler).status, 200);
  const json::object batch = client().wait_for(id, "completed");
  EXPECT_EQ(client().lines(batch, "output_file_id").size(), 16U);
  EXPECT_EQ(calls, 16);  // none ran twice
}

}  // namespace
}  // namespace quire
