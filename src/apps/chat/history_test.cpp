#include "apps/chat/history.h"

#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

std::string messages(const Conversation& conversation) {
  return json::serialize(conversation.messages);
}

std::string messages(const ChatHistory& history) { return messages(history.conversation()); }

// Two questions and their answers.
ChatHistory two_turns() {
  ChatHistory history;
  ChatAnswer answer;
  answer.text = "a1";
  history.take(history.asking("q1"), answer);
  answer.text = "a2";
  history.take(history.asking("q2"), answer);
  return history;
}

constexpr char kSystem[] = R"({"role":"system","content":"S"})";
constexpr char kFirst[] = R"({"role":"user","content":"q1"},{"role":"assistant","content":"a1"})";
constexpr char kSecond[] = R"({"role":"user","content":"q2"})";

std::string list(std::initializer_list<std::string> parts) {
  std::string text = "[";
  for (const std::string& part : parts) text += (text.size() > 1 ? "," : "") + part;
  return text + "]";
}

TEST(ChatHistory, AnAnswersCallsAndReasoningAreAMessage) {
  ChatAnswer answer;
  answer.reasoning = "r";
  answer.calls = {{.id = "c0", .name = "f", .arguments = R"({"a":1})"},
                  {.index = 1, .id = "c1", .name = "g", .arguments = R"({"a":)"}};
  EXPECT_EQ(json::serialize(answer_message(answer)),
            R"({"role":"assistant","content":"","reasoning_content":"r","tool_calls":[)"
            R"({"id":"c0","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},)"
            R"({"id":"c1","type":"function","function":{"name":"g","arguments":"{}"}}]})");
}

TEST(ChatHistory, AskingChangesNothingYet) {
  ChatHistory history;
  EXPECT_EQ(messages(history.asking("q2")), list({kSecond}));
  EXPECT_EQ(messages(history), "[]");
  EXPECT_FALSE(history.asking_again());
}

TEST(ChatHistory, AskingAgainLeavesTheAnswerOut) {
  const ChatHistory history = two_turns();
  EXPECT_EQ(messages(*history.asking_again()), list({kFirst, kSecond}));
  EXPECT_EQ(history.conversation().messages.size(), 4U);
}

TEST(ChatHistory, UndoTakesBackTurns) {
  ChatHistory history = two_turns();
  history.set_system("S");
  EXPECT_TRUE(history.undo());
  EXPECT_EQ(messages(history), list({kSystem, kFirst}));
  EXPECT_TRUE(history.undo());
  EXPECT_FALSE(history.undo());
  EXPECT_EQ(messages(history), list({kSystem}));
}

TEST(ChatHistory, SystemMessageIsSetReplacedAndTakenAway) {
  ChatHistory history = two_turns();
  EXPECT_EQ(history.system(), "");
  history.set_system("T");
  history.set_system("S");
  EXPECT_EQ(history.system(), "S");
  history.clear();
  EXPECT_EQ(messages(history), list({kSystem}));
  history.set_system("");
  EXPECT_EQ(messages(history), "[]");
  history.clear();
  EXPECT_EQ(messages(history), "[]");
}

class ChatHistoryFile : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() /
            ("quire_chat_history_" + std::to_string(::getpid()) + ".json");
  }
  void TearDown() override { std::filesystem::remove(path_); }

  void write(std::string_view text) const { std::ofstream(path_) << text; }

  std::filesystem::path path_;
};

TEST_F(ChatHistoryFile, ComesBackWhole) {
  write(R"({"messages": [{"role": "user", "content": "q", "name": "n"}], "documents": [{"a": 1}],
            "tools": [{"b": 2}], "chat_template_kwargs": {"c": 3}})");
  const auto history = ChatHistory::load(path_.string());
  ASSERT_TRUE(history.ok()) << history.status().to_string();
  ASSERT_TRUE(history->save(path_.string()).ok());
  std::ifstream file(path_);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_EQ(text, R"({"messages":[{"role":"user","content":"q","name":"n"}],"tools":[{"b":2}],)"
                  R"("documents":[{"a":1}],"chat_template_kwargs":{"c":3}})"
                  "\n");
  EXPECT_EQ(messages(*history->asking_again()), messages(*history));
}

TEST_F(ChatHistoryFile, ListsOfMessagesAreRead) {
  write("[" + std::string(kSystem) + "]");
  EXPECT_EQ(ChatHistory::load(path_.string())->system(), "S");
}

TEST_F(ChatHistoryFile, OtherEndsOfThePromptAreRefused) {
  for (const char* field :
       {R"("continue_final_message": true)", R"("add_generation_prompt": false)"}) {
    write(std::string(R"({"messages": [], )") + field + "}");
    const auto history = ChatHistory::load(path_.string());
    ASSERT_FALSE(history.ok());
    EXPECT_THAT(history.status().to_string(), testing::HasSubstr("add_generation_prompt"));
  }
}

TEST_F(ChatHistoryFile, SystemMessagesOfPartsAreKept) {
  write(R"([{"role": "system", "content": [{"type": "text", "text": "S"}]}])");
  auto history = ChatHistory::load(path_.string());
  ASSERT_TRUE(history.ok());
  EXPECT_EQ(history->system(), "");
  history->clear();
  EXPECT_EQ(history->conversation().messages.size(), 1U);
}

}  // namespace
}  // namespace quire
