#include "serve/protocols/openai/batch/batch_service.h"

#include <csignal>
#include <map>
#include <random>
#include <set>
#include <sys/stat.h>
#include <sys/wait.h>

#include <gmock/gmock.h>

#include "serve/http/http_error.h"
#include "serve/protocols/openai/batch/batch_fixture.h"

namespace quire {
namespace {

using test::BatchClient;
using test::completion;
using test::input_line;
using test::input_lines;
using testing::HasSubstr;

class BatchServiceTest : public testing::Test {
 protected:
  // Opens the service; `answer` is the handler of /v1/completions.
  void open(HttpHandler answer, BatchLimits limits = {}) {
    client_.reset();
    service_.reset();
    handler_ = std::move(answer);
    auto service = open_service(limits);
    ASSERT_TRUE(service.ok()) << service.status().to_string();
    service_ = std::move(*service);
    client_ = std::make_unique<BatchClient>(*service_);
    service_->start();
  }
  Result<std::unique_ptr<BatchService>> open_service(BatchLimits limits = {}) {
    return BatchService::open(
        {.database = folder_.database(), .limits = limits, .now = [this] { return now_.load(); }},
        handlers());
  }
  EndpointHandlers handlers() {
    return [this](std::string_view endpoint) {
      return endpoint == "/v1/completions" ? &handler_ : nullptr;
    };
  }
  static void answer_at_once(const std::shared_ptr<Exchange>& exchange) {
    exchange->respond(completion());
  }
  BatchClient& client() { return *client_; }

  test::TestFolder folder_;
  std::atomic<std::int64_t> now_ = 1'700'000'000;
  HttpHandler handler_;
  std::unique_ptr<BatchService> service_;
  std::unique_ptr<BatchClient> client_;
};

TEST_F(BatchServiceTest, KeepsFiles) {
  open(answer_at_once);
  const std::string content(200'000, 'x');
  const json::object file =
      client().object_of(client().upload(content, "batch", "../../a%22b.jsonl"));
  EXPECT_EQ(file.at("object"), "file");
  EXPECT_EQ(file.at("filename"), "a\"b.jsonl");
  EXPECT_EQ(file.at("bytes"), 200'000);
  EXPECT_EQ(file.at("purpose"), "batch");
  EXPECT_EQ(file.at("status"), "processed");
  EXPECT_EQ(file.at("expires_at"), 1'700'000'000 + 30 * 24 * 3600);
  const std::string id(file.at("id").as_string());

  open(answer_at_once);  // again, as after a restart
  EXPECT_EQ(client().get("/v1/files/" + id), file);
  EXPECT_EQ(client().call("GET", "/v1/files/" + id + "/content").body, content);
  struct stat status {};
  ASSERT_EQ(stat(folder_.database().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);

  const json::object deleted = client().object_of(client().call("DELETE", "/v1/files/" + id));
  EXPECT_EQ(deleted.at("deleted"), true);
  EXPECT_EQ(client().call("GET", "/v1/files/" + id).status, 404);
  EXPECT_EQ(client().call("GET", "/v1/files/" + id + "/content").status, 404);
  EXPECT_EQ(client().call("DELETE", "/v1/files/" + id).status, 404);
}

TEST_F(BatchServiceTest, GivesRangesOfFiles) {
  open(answer_at_once, {.max_download_bytes = 100'000});
  std::string content;
  for (int i = 0; i < 30'000; ++i) content += fmt::format("{:05}", i);
  const std::string path = "/v1/files/" + client().file(content) + "/content";
  const auto range = [&](std::string value) {
    return client().call("GET", path, {}, "", {}, {{"Range", std::move(value)}});
  };
  EXPECT_THAT(client().call("GET", path).body, HasSubstr("with the header Range"));
  EXPECT_EQ(range("bytes=65530-65549").body, content.substr(65530, 20));
  EXPECT_EQ(range("bytes=65530-65549").status, 206);
  EXPECT_EQ(range("bytes=131000-").body, content.substr(131000));
  EXPECT_EQ(range("bytes=0-99999").body, content.substr(0, 100'000));
  EXPECT_EQ(range("bytes=150000-").status, 416);
  EXPECT_EQ(range("bytes=5-2").status, 400);  // as without it: too large
}

TEST_F(BatchServiceTest, RefusesUploads) {
  open(answer_at_once, {.max_file_bytes = 1000, .max_total_bytes = 1500, .max_files = 3});
  EXPECT_THAT(client().upload("x", "fine-tune").body, HasSubstr("'fine-tune' is not supported"));
  EXPECT_EQ(client().upload("x", "fine-tune").status, 400);
  EXPECT_EQ(client().upload(std::string(1001, 'x')).status, 413);
  client().file(std::string(1000, 'x'));
  EXPECT_EQ(client().upload(std::string(501, 'x')).status, 507);
  client().file(std::string(250, 'x'));
  client().file(std::string(250, 'x'));
  EXPECT_THAT(client().upload("").body, HasSubstr("there are 3 files"));
  EXPECT_EQ(client().call("POST", "/v1/files", "x", "multipart/form-data; boundary=B").status, 400);
  EXPECT_THAT(client()
                  .call("POST", "/v1/files",
                        "--B\r\nContent-Disposition: form-data; name=purpose\r\n\r\nbatch\r\n--B--",
                        "multipart/form-data; boundary=B")
                  .body,
              HasSubstr("file: the field is missing"));
}

TEST_F(BatchServiceTest, KeepsNothingOfAnUploadThatTheDiskHasNoRoomFor) {
  open(answer_at_once, {.max_database_bytes = 400'000});
  const std::string kept = client().file(std::string(100'000, 'k'));
  const HttpResponse refused = client().upload(std::string(500'000, 'x'));
  EXPECT_EQ(refused.status, 507);
  EXPECT_THAT(refused.body, HasSubstr("full"));
  EXPECT_EQ(client().get("/v1/files").at("data").as_array().size(), 1U);
  EXPECT_EQ(client().call("GET", "/v1/files/" + kept + "/content").body, std::string(100'000, 'k'));
  client().file(std::string(100'000, 'x'));
}

TEST_F(BatchServiceTest, ListsInPages) {
  open(answer_at_once);
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(client().file(input_lines(1)));
  const auto list = [&](std::vector<std::pair<std::string, std::string>> query) {
    const json::object page = client().get("/v1/files", std::move(query));
    std::vector<std::string> found;
    for (const auto& file : page.at("data").as_array()) {
      found.emplace_back(file.as_object().at("id").as_string());
    }
    found.emplace_back(page.at("has_more").as_bool() ? "more" : "end");
    return found;
  };
  using Ids = std::vector<std::string>;
  EXPECT_EQ(list({{"limit", "2"}}), (Ids{ids[4], ids[3], "more"}));
  EXPECT_EQ(list({{"limit", "2"}, {"after", ids[3]}}), (Ids{ids[2], ids[1], "more"}));
  EXPECT_EQ(list({{"limit", "2"}, {"after", ids[1]}}), (Ids{ids[0], "end"}));
  EXPECT_EQ(list({{"order", "asc"}, {"after", ids[3]}}), (Ids{ids[4], "end"}));
  EXPECT_EQ(list({{"purpose", "batch_output"}}), (Ids{"end"}));
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"limit", "0"}, {"limit", "1x"}, {"limit", "10001"}, {"order", "up"}, {"after", "?"}}) {
    EXPECT_EQ(client().call("GET", "/v1/files", {}, "", {{name, value}}).status, 400) << name;
  }
  Ids batches;
  for (const std::string& id : ids) batches.push_back(client().id_of(client().create(id)));
  const json::object page = client().get("/v1/batches", {{"limit", "2"}, {"after", batches[4]}});
  EXPECT_EQ(page.at("first_id").as_string(), batches[3]);
  EXPECT_EQ(page.at("last_id").as_string(), batches[2]);
  EXPECT_TRUE(page.at("has_more").as_bool());
  EXPECT_EQ(client().call("GET", "/v1/batches", {}, "", {{"limit", "101"}}).status, 400);
}

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
      "404 null");
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
    for (int i = 0; i < 2000 && num_kept() < count; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
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
  for (int i = 0; i < 1000 && !client().get("/v1/files").at("data").as_array().empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(client().get("/v1/files").at("data").as_array().empty());
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
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
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
  for (int i = 0; i < 1000 && calls < 16; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(client().get("/v1/batches/" + id).at("status"), "in_progress");
  EXPECT_EQ(client().call("DELETE", "/v1/files/" + filler).status, 200);
  const json::object batch = client().wait_for(id, "completed");
  EXPECT_EQ(client().lines(batch, "output_file_id").size(), 16U);
  EXPECT_EQ(calls, 16);  // none ran twice
}

TEST_F(BatchServiceTest, LetsOneProcessAloneHaveTheDatabase) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto first = open_service();
    const char answer = first.ok() ? 'y' : 'n';
    if (write(ready[1], &answer, 1) != 1) _exit(1);
    std::this_thread::sleep_for(std::chrono::seconds(20));
    _exit(0);
  }
  char answer = 0;
  ASSERT_EQ(read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  const auto second = open_service();
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(second.status().message(), HasSubstr("batches.sqlite"));
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  close(ready[0]);
  close(ready[1]);
  open(answer_at_once);  // however the first ended
}

TEST_F(BatchServiceTest, RefusesADatabaseOfALaterVersion) {
  open(answer_at_once);
  service_.reset();
  {
    auto database = SqliteDatabase::open(folder_.database());
    ASSERT_TRUE(database.ok());
    ASSERT_TRUE(database->execute("PRAGMA user_version = 2").ok());
  }
  const auto service = open_service();
  EXPECT_EQ(service.status().code(), StatusCode::kConfig);
  EXPECT_THAT(service.status().message(), HasSubstr("schema version 2"));
}

// The process is killed in mid-batch, again and again; each line still has exactly one result.
TEST_F(BatchServiceTest, SurvivesKill) {
  constexpr int kLines = 2000;
  constexpr int kKills = 12;
  open(answer_at_once);
  service_->stop();
  const std::string id = client().batch(input_lines(kLines));
  client_.reset();
  service_.reset();
  std::mt19937 random(7);
  std::set<std::int64_t> progress;
  for (int i = 0; i < kKills; ++i) {
    int calls[2];  // a byte for each call of the handler
    ASSERT_EQ(pipe(calls), 0);
    const pid_t child = fork();
    if (child == 0) {
      handler_ = [&calls](const std::shared_ptr<Exchange>& exchange) {
        if (write(calls[1], "c", 1) != 1) _exit(1);
        exchange->respond(completion());
        std::this_thread::sleep_for(std::chrono::microseconds(300));
      };
      auto service = open_service();
      if (!service.ok()) _exit(1);
      (*service)->start();
      std::this_thread::sleep_for(std::chrono::seconds(60));
      _exit(0);
    }
    close(calls[1]);
    const std::size_t num_calls = 40 + random() % 80;
    char call = 0;
    for (std::size_t k = 0; k < num_calls; ++k) ASSERT_EQ(read(calls[0], &call, 1), 1);
    kill(child, SIGKILL);
    close(calls[0]);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    auto service = open_service();
    ASSERT_TRUE(service.ok()) << service.status().to_string();
    const json::object batch = BatchClient(**service).get("/v1/batches/" + id);
    progress.insert(batch.at("request_counts").as_object().at("completed").as_int64());
  }
  EXPECT_EQ(progress.size(), static_cast<std::size_t>(kKills));  // it went on after each
  EXPECT_LT(*progress.rbegin(), kLines);                         // and all came in mid-batch
  open(answer_at_once);
  const json::object batch = client().wait_for(id, "completed");
  std::map<std::string, int> results;
  for (const json::object& line : client().lines(batch, "output_file_id")) {
    ++results[std::string(line.at("custom_id").as_string())];
  }
  EXPECT_EQ(results.size(), static_cast<std::size_t>(kLines));
  for (const auto& [name, count] : results) EXPECT_EQ(count, 1) << name;
  EXPECT_EQ(batch.at("request_counts").as_object().at("completed"), kLines);
  EXPECT_FALSE(batch.contains("error_file_id"));
}

}  // namespace
}  // namespace quire
