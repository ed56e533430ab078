// For the tests of files and batches: a service on a database of its own, called through its
// routes, with an endpoint that a test answers.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "serve/http/test_exchange.h"
#include "serve/protocols/openai/batch/batch_service.h"

namespace quire::test {

// Calls made with the same routes that a server gives to its clients.
class BatchClient {
 public:
  explicit BatchClient(BatchService& service) { router_.add_all(service.routes()); }

  HttpResponse call(std::string method, std::string path, std::string body = {},
                    std::string type = "application/json",
                    std::vector<std::pair<std::string, std::string>> query = {},
                    std::vector<HttpHeader> headers = {}) {
    HttpRequest request;
    request.method = std::move(method);
    request.path = std::move(path);
    request.query = std::move(query);
    request.headers = std::move(headers);
    request.headers.push_back({"Content-Type", std::move(type)});
    request.body = std::move(body);
    request.request_id = "test";
    auto match = router_.match(request.method, request.path);
    if (match.route == nullptr) return {.status = 404};
    request.path_params = match.path_params;
    const auto exchange = std::make_shared<TestExchange>(std::move(request));
    match.route->handler(exchange);
    return exchange->wait();
  }

  json::object get(std::string path, std::vector<std::pair<std::string, std::string>> query = {}) {
    return object_of(call("GET", std::move(path), {}, "", std::move(query)));
  }

  HttpResponse upload(std::string_view content, std::string_view purpose = "batch",
                      std::string_view filename = "in.jsonl") {
    return call("POST", "/v1/files",
                fmt::format("--B\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\n{}\r\n"
                            "--B\r\nContent-Disposition: form-data; name=\"file\"; "
                            "filename=\"{}\"\r\nContent-Type: application/jsonl\r\n\r\n{}\r\n"
                            "--B--\r\n",
                            purpose, filename, content),
                "multipart/form-data; boundary=B");
  }

  // The id of a new file, of a new batch over it.
  std::string file(std::string_view content) { return id_of(upload(content)); }
  HttpResponse create(std::string_view file_id) {
    return call("POST", "/v1/batches",
                fmt::format(R"({{"input_file_id":"{}","endpoint":"/v1/completions",)"
                            R"("completion_window":"24h","metadata":{{"k":"v"}}}})",
                            file_id));
  }
  std::string batch(std::string_view content) { return id_of(create(file(content))); }

  // The batch as soon as it has the status; as it is after two minutes otherwise.
  json::object wait_for(const std::string& batch_id, std::string_view status) {
    json::object batch;
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (std::chrono::steady_clock::now() < end) {
      batch = get("/v1/batches/" + batch_id);
      if (batch.at("status").as_string() == status) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(batch.at("status").as_string(), status);
    return batch;
  }

  // The lines of the file that a batch names under `key`.
  std::vector<json::object> lines(const json::object& batch, std::string_view key) {
    std::vector<json::object> out;
    if (!batch.contains(key)) return out;
    const std::string path =
        fmt::format("/v1/files/{}/content", std::string_view(batch.at(key).as_string()));
    std::string_view text;
    const HttpResponse response = call("GET", path);
    EXPECT_EQ(response.status, 200);
    text = response.body;
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      out.push_back(parse_json(text.substr(0, end), "line").value().as_object());
      text.remove_prefix(end + 1);
    }
    return out;
  }

  static json::object object_of(const HttpResponse& response) {
    return parse_json(response.body, "response").value().as_object();
  }
  static std::string id_of(const HttpResponse& response) {
    EXPECT_EQ(response.status, 200) << response.body;
    return std::string(object_of(response).at("id").as_string());
  }

 private:
  Router router_;
};

inline std::string input_line(std::string_view custom_id, std::string_view body = "{}") {
  return fmt::format(R"({{"custom_id":"{}","method":"POST","url":"/v1/completions","body":{}}})"
                     "\n",
                     custom_id, body);
}

inline std::string input_lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += input_line(fmt::format("r{}", i), R"({"prompt":"x"})");
  return text;
}

// A folder that goes with the test.
class TestFolder {
 public:
  TestFolder() {
    std::string name = std::filesystem::temp_directory_path() / "quire_batch_XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  std::filesystem::path database() const { return path_ / "folder" / "batches.sqlite"; }

 private:
  std::filesystem::path path_;
};

inline HttpResponse completion() {
  return {.body =
              R"({"object":"text_completion","usage":{"prompt_tokens":3,"completion_tokens":2}})"};
}

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
    ASSERT_TRUE(service_->start().ok());
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

  TestFolder folder_;
  std::atomic<std::int64_t> now_ = 1'700'000'000;
  HttpHandler handler_;
  std::unique_ptr<BatchService> service_;
  std::unique_ptr<BatchClient> client_;
};

}  // namespace quire::test
