// Chat templates against jinja2 under transformers' settings: byte for byte the same text, and an
// error exactly where jinja2 has one. Goldens: scripts/goldens/chat_template.py.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "text/chat_template.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

const fs::path kData = fs::path(QUIRE_SOURCE_DIR) / "tests/data/chat_template";
const fs::path kShared = fs::path(QUIRE_SOURCE_DIR) / "../shared/data/chat_templates";

json::value read_golden(const fs::path& path) {
  auto parsed = read_json_file(path, 16 << 20);
  EXPECT_TRUE(parsed.ok()) << parsed.status().to_string();
  return parsed.ok() ? *parsed : json::value();
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::tm parse_clock(const json::value& clock) {
  std::tm out{};
  std::sscanf(clock.as_string().c_str(), "%d-%d-%dT%d:%d:%d", &out.tm_year, &out.tm_mon,
              &out.tm_mday, &out.tm_hour, &out.tm_min, &out.tm_sec);
  out.tm_year -= 1900;
  out.tm_mon -= 1;
  std::tm copy = out;
  const std::time_t seconds = timegm(&copy);
  gmtime_r(&seconds, &out);
  return out;
}

class ChatTemplateGolden : public testing::Test {
 protected:
  void SetUp() override {
    const json::value file = read_golden(kData / "conversations.json");
    ASSERT_TRUE(file.is_object());
    for (const auto& token : file.at("special_tokens").as_object()) {
      base_.special_tokens.emplace_back(token.key(), token.value().as_string());
    }
    base_.local_time = parse_clock(file.at("clock"));
    conversations_ = file.at("conversations").as_array();
  }

  ChatTemplateInput input_of(const json::object& conversation) const {
    ChatTemplateInput input = base_;
    input.messages = conversation.at("messages").as_array();
    if (const auto* tools = conversation.if_contains("tools")) input.tools = *tools;
    if (const auto* documents = conversation.if_contains("documents")) input.documents = *documents;
    if (const auto* kwargs = conversation.if_contains("kwargs")) input.kwargs = kwargs->as_object();
    if (const auto* flag = conversation.if_contains("add_generation_prompt")) {
      input.add_generation_prompt = flag->as_bool();
    }
    return input;
  }

  // Renders all conversations and compares with the goldens of `name`.
  void check(const fs::path& source, const std::string& name) {
    SCOPED_TRACE(name);
    const auto parsed = ChatTemplate::parse(read_text(source), "chat template");
    ASSERT_TRUE(parsed.ok()) << parsed.status().to_string();
    const json::value golden = read_golden(kData / (name + ".json"));
    const json::array& outputs = golden.at("outputs").as_array();
    ASSERT_EQ(outputs.size(), conversations_.size());
    std::string last;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const json::object& conversation = conversations_[i].as_object();
      SCOPED_TRACE(std::string(conversation.at("name").as_string()));
      const auto rendered = parsed->render(input_of(conversation));
      if (outputs[i].is_string()) {
        EXPECT_FALSE(rendered.ok()) << "jinja2 fails here, not: " << join(*rendered);
        if (!rendered.ok()) {
          EXPECT_NE(rendered.status().message().find("line"), std::string::npos);
        }
        continue;
      }
      const json::array& coded = outputs[i].as_array();
      const auto prefix = static_cast<std::size_t>(coded[0].as_int64());
      const auto suffix = static_cast<std::size_t>(coded[1].as_int64());
      last = last.substr(0, prefix) + std::string(coded[2].as_string()) +
             last.substr(last.size() - suffix);
      ASSERT_TRUE(rendered.ok()) << rendered.status().to_string();
      EXPECT_EQ(join(*rendered), last);
      ++compared_;
    }
  }

  ChatTemplateInput base_;
  json::array conversations_;
  int compared_ = 0;
};

TEST_F(ChatTemplateGolden, CommittedTemplates) {
  for (const std::string name : {"chatml", "llama2_style", "smollm2_135m_instruct"}) {
    check(kData / (name + ".jinja"), name);
  }
  EXPECT_GT(compared_, 60);
}

TEST_F(ChatTemplateGolden, PublishedTemplates) {
  if (!fs::exists(kShared)) {
    ASSERT_EQ(std::getenv("CI"), nullptr) << kShared << " must be there in CI";
    GTEST_SKIP() << "no " << kShared;
  }
  int templates = 0;
  for (const auto& entry : fs::directory_iterator(kShared)) {
    if (entry.path().extension() != ".jinja") continue;
    check(entry.path(), entry.path().stem().string());
    ++templates;
  }
  EXPECT_GE(templates, 18);
}

TEST_F(ChatTemplateGolden, Language) {
  const json::value golden = read_golden(kData / "language.json");
  ChatTemplateInput input = base_;
  input.kwargs = golden.at("variables").as_object();
  for (const json::value& entry : golden.at("cases").as_array()) {
    const std::string source(entry.as_array()[0].as_string());
    const json::value& expected = entry.as_array()[1];
    const auto parsed = ChatTemplate::parse(source, "chat template");
    if (!parsed.ok()) {
      EXPECT_TRUE(expected.is_null()) << source << "\n" << parsed.status().to_string();
      continue;
    }
    const auto rendered = parsed->render(input);
    if (expected.is_null()) {
      EXPECT_FALSE(rendered.ok()) << source << "\nrenders as: " << join(*rendered);
    } else if (rendered.ok()) {
      EXPECT_EQ(join(*rendered), std::string(expected.as_string())) << source;
    } else {
      ADD_FAILURE() << source << "\n" << rendered.status().to_string();
    }
  }
}

}  // namespace
}  // namespace quire
