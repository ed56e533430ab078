#include "apps/bench_serve/workload.h"

#include <filesystem>
#include <fstream>
#include <set>

#include <gtest/gtest.h>

namespace quire::bench {
namespace {

const PromptSource kIds(TokenIds{11, 12, 13, 14, 15, 16, 17, 18});
const PromptSource kWords({});

json::object body_of(const PlannedRequest& request) {
  return parse_json(request.body, "body")->get_object();
}

class WorkloadTest : public testing::Test {
 protected:
  WorkloadTest() { format_.model = "m"; }
  ~WorkloadTest() override { std::filesystem::remove(path_); }

  void write_file(std::string_view text) {
    path_ = testing::TempDir() + "workload_" + std::to_string(::getpid()) + ".jsonl";
    std::ofstream(path_) << text;
    flags_.path = path_;
  }
  std::vector<PlannedRequest> make(const PromptSource& source, std::uint64_t salt = 1) {
    auto requests = make_requests(flags_, {}, format_, source, salt);
    EXPECT_TRUE(requests.ok()) << requests.status().to_string();
    return *std::move(requests);
  }
  Result<std::vector<PlannedRequest>> make_from_file() {
    auto lines = read_workload_file(flags_);
    if (!lines.ok()) return lines.status();
    return make_requests(flags_, *lines, format_, kIds, 1);
  }

  WorkloadFlags flags_;
  RequestFormat format_;
  std::string path_;
};

TEST_F(WorkloadTest, RandomPromptsHaveTheirLength) {
  flags_.num_prompts = 3;
  flags_.input_len = 20;
  flags_.output_len = 7;
  format_.ignore_eos = true;
  for (const PlannedRequest& request : make(kIds)) {
    const json::object body = body_of(request);
    EXPECT_EQ(body.at("prompt").get_array().size(), 20U);
    EXPECT_EQ(body.at("max_tokens").to_number<int>(), 7);
    EXPECT_EQ(body.at("model").get_string(), "m");
    EXPECT_TRUE(body.at("ignore_eos").get_bool());
    EXPECT_TRUE(body.at("stream_options").get_object().at("include_usage").get_bool());
    EXPECT_EQ(request.prompt_tokens, 20);
  }
  const json::object words = body_of(make(kWords)[0]);
  const std::string_view text = words.at("prompt").get_string();
  EXPECT_EQ(std::ranges::count(text, ' '), 19);
  EXPECT_EQ(make(kWords)[0].prompt_tokens, 0);
}

TEST_F(WorkloadTest, TheSeedAndTheLevelDecideThePrompts) {
  flags_.num_prompts = 2;
  flags_.input_len = 30;
  EXPECT_EQ(make(kIds)[1].body, make(kIds)[1].body);
  EXPECT_NE(make(kIds)[0].body, make(kIds)[1].body);
  EXPECT_NE(make(kIds, 1)[0].body, make(kIds, 2)[0].body);
  const std::string before = make(kIds)[0].body;
  flags_.seed = 1;
  EXPECT_NE(make(kIds)[0].body, before);
}

TEST_F(WorkloadTest, LengthsStayWithinTheirRange) {
  flags_.num_prompts = 2000;
  flags_.input_len = 20;
  flags_.range_ratio = 0.5;
  std::set<std::int64_t> lengths;
  for (const PlannedRequest& request : make(kIds)) lengths.insert(request.prompt_tokens);
  EXPECT_EQ(lengths.size(), 21U);
  EXPECT_EQ(*lengths.begin(), 10);
  EXPECT_EQ(*lengths.rbegin(), 30);
}

TEST_F(WorkloadTest, PrefixesAreShared) {
  flags_.dataset = Dataset::kPrefix;
  flags_.num_prompts = 200;
  flags_.prefix_len = 12;
  flags_.suffix_len = 5;
  flags_.num_prefixes = 4;
  std::set<std::string> prefixes;
  std::set<std::string> prompts;
  for (const PlannedRequest& request : make(kIds)) {
    EXPECT_EQ(request.prompt_tokens, 17);
    json::object body = body_of(request);
    json::array ids = body.at("prompt").get_array();
    prompts.insert(json::serialize(ids));
    ids.resize(12);
    prefixes.insert(json::serialize(ids));
  }
  EXPECT_EQ(prefixes.size(), 4U);
  EXPECT_GT(prompts.size(), 190U);

  format_.chat = true;
  std::set<std::string> systems;
  for (const PlannedRequest& request : make(kWords)) {
    const json::object body = body_of(request);
    const json::array& messages = body.at("messages").get_array();
    ASSERT_EQ(messages.size(), 2U);
    EXPECT_EQ(messages[0].at("role").get_string(), "system");
    systems.insert(json::serialize(messages[0]));
  }
  EXPECT_EQ(systems.size(), 4U);
}

TEST_F(WorkloadTest, MoreFieldsGoBeforeOurs) {
  flags_.num_prompts = 1;
  format_.extra = {{"temperature", 0.5}, {"top_k", 3}};
  const json::object body = body_of(make(kIds)[0]);
  EXPECT_EQ(body.at("temperature").get_double(), 0.5);
  EXPECT_EQ(body.at("top_k").get_int64(), 3);
}

TEST_F(WorkloadTest, ReadsPromptsFromAFile) {
  flags_.dataset = Dataset::kJsonl;
  write_file("{\"prompt\": \"one\", \"max_tokens\": 3}\n\n{\"prompt\": [5, 6, 7], \"x\": 1}\n");
  const auto requests = make_from_file();
  ASSERT_TRUE(requests.ok()) << requests.status().to_string();
  ASSERT_EQ(requests->size(), 2U);
  EXPECT_EQ(body_of((*requests)[0]).at("prompt").get_string(), "one");
  EXPECT_EQ(body_of((*requests)[0]).at("max_tokens").to_number<int>(), 3);
  EXPECT_EQ((*requests)[1].prompt_tokens, 3);
  EXPECT_EQ(body_of((*requests)[1]).at("max_tokens").to_number<int>(), 128);

  flags_.num_prompts = 5;  // the file again and again
  EXPECT_EQ(make_from_file()->size(), 5U);

  format_.chat = true;
  EXPECT_FALSE(make_from_file().ok());  // token ids
  write_file("{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}\n{\"prompt\": \"x\"}");
  flags_.num_prompts = 2;
  const auto chat = make_from_file();
  ASSERT_TRUE(chat.ok()) << chat.status().to_string();
  EXPECT_EQ(body_of((*chat)[1]).at("messages").get_array()[0].at("content").get_string(), "x");
  format_.chat = false;
  EXPECT_NE(make_from_file().status().message().find("messages"), std::string::npos);
}

TEST_F(WorkloadTest, ReadsATrace) {
  flags_.dataset = Dataset::kTrace;
  flags_.timestamps_in_ms = true;
  write_file(
      "{\"timestamp\": 1000, \"input_length\": 6, \"output_length\": 2}\n"
      "{\"timestamp\": 1250.5, \"prompt\": \"x\"}\n{\"timestamp\": 3000, \"input_len\": 4}\n");
  const auto requests = make_from_file();
  ASSERT_TRUE(requests.ok()) << requests.status().to_string();
  EXPECT_DOUBLE_EQ((*requests)[0].timestamp, 0);
  EXPECT_DOUBLE_EQ((*requests)[1].timestamp, 0.2505);
  EXPECT_DOUBLE_EQ((*requests)[2].timestamp, 2);
  EXPECT_EQ((*requests)[0].prompt_tokens, 6);
  EXPECT_EQ(body_of((*requests)[0]).at("max_tokens").to_number<int>(), 2);
  flags_.num_prompts = 4;
  EXPECT_FALSE(make_from_file().ok());
}

TEST_F(WorkloadTest, SaysWhichLineIsWrong) {
  flags_.dataset = Dataset::kTrace;
  for (const char* line :
       {"{", "[]", "{\"timestamp\": 1}", "{\"prompt\": \"x\"}", "{\"prompt\": 1, \"timestamp\": 1}",
        "{\"prompt\": [], \"timestamp\": 1}", "{\"prompt\": \"x\", \"timestamp\": \"1\"}",
        "{\"prompt\": \"x\", \"timestamp\": -1}", "{\"prompt\": \"x\", \"timestamp\": 1e999}",
        "{\"prompt\": \"x\", \"messages\": [], \"timestamp\": 1}",
        "{\"messages\": {}, \"timestamp\": 1}", "{\"input_len\": 0, \"timestamp\": 1}",
        "{\"prompt\": \"x\", \"max_tokens\": 0, \"timestamp\": 1}",
        "{\"prompt\": \"x\", \"timestamp\": 0.5}"}) {
    write_file(std::string("{\"prompt\": \"x\", \"timestamp\": 0.75}\n") + line + "\n");
    const auto lines = read_workload_file(flags_);
    ASSERT_FALSE(lines.ok()) << line;
    EXPECT_NE(lines.status().message().find("line 2"), std::string::npos)
        << line << ": " << lines.status().message();
  }
  write_file("");
  EXPECT_FALSE(read_workload_file(flags_).ok());
}

}  // namespace
}  // namespace quire::bench
