// The database of batches among processes: one alone has it, and none loses by being killed.
#include <csignal>
#include <map>
#include <random>
#include <set>
#include <sys/wait.h>

#include <gmock/gmock.h>

#include "serve/protocols/openai/batch/batch_fixture.h"
#include "serve/protocols/openai/batch/sqlite.h"

namespace quire {
namespace {

using test::BatchClient;
using test::completion;
using test::input_lines;
using testing::HasSubstr;

class BatchRecoveryTest : public test::BatchServiceTest {};

TEST_F(BatchRecoveryTest, LetsOneProcessAloneHaveTheDatabase) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto first = open_service();
    const char answer = first.ok() ? 'y' : 'n';
    if (write(ready[1], &answer, 1) != 1) _exit(1);
    std::this_thread::sleep_for(std::chrono::minutes(2));
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

TEST_F(BatchRecoveryTest, RefusesADatabaseOfALaterVersion) {
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
TEST_F(BatchRecoveryTest, SurvivesKill) {
  constexpr int kLines = 2000;
  constexpr int kKills = 12;
  constexpr int kMostCalls = 160;  // of a process, however late its kill comes
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
      handler_ = [&calls, num_calls = 0](const std::shared_ptr<Exchange>& exchange) mutable {
        if (num_calls++ == kMostCalls) std::this_thread::sleep_for(std::chrono::minutes(2));
        if (write(calls[1], "c", 1) != 1) _exit(1);
        exchange->respond(completion());
        std::this_thread::sleep_for(std::chrono::microseconds(300));
      };
      auto service = open_service();
      if (!service.ok()) _exit(1);
      if (!(*service)->start().ok()) _exit(1);
      std::this_thread::sleep_for(std::chrono::minutes(2));
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
