// The dialect that a published chat template shows, and that a call which the template writes is
// read again as the same call.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "text/chat_template.h"
#include "text/dialects/dialect_samples.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

const fs::path kTemplates = fs::path(QUIRE_SOURCE_DIR) / "../shared/data/chat_templates";

struct Choice {
  std::string_view file;
  std::string_view tools;
  std::string_view reasoning;
  // Where an answer begins in what the template writes: behind the first of these that follows the
  // question. Empty: the template writes no calls.
  std::string_view answer = {};
  bool one_call = false;        // at a time
  bool text_arguments = false;  // the template wants them as text
};

constexpr Choice kChoices[] = {
    {"CohereForAI-c4ai-command-r7b-12-2024-tool_use.jinja", "cohere_command3", "cohere_command3",
     "<|CHATBOT_TOKEN|>"},
    {"GLM-4.6.jinja", "glm45", "glm45", "<|assistant|>"},
    {"HuggingFaceTB-SmolLM3-3B.jinja", "none", "qwen3"},
    {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use.jinja", "hermes", "none",
     "<|im_start|>assistant"},
    {"Qwen-Qwen2.5-7B-Instruct.jinja", "hermes", "none", "<|im_start|>assistant"},
    {"Qwen-Qwen3-0.6B.jinja", "hermes", "qwen3", "<|im_start|>assistant"},
    {"Qwen3-Coder.jinja", "qwen3_coder", "none", "<|im_start|>assistant"},
    {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B.jinja", "deepseek_v3", "deepseek_v3",
     "<｜Assistant｜>", false, true},
    {"deepseek-ai-DeepSeek-V3.1.jinja", "deepseek_v31", "deepseek_v3", "<｜Assistant｜>"},
    {"google-gemma-2-2b-it.jinja", "none", "none"},
    {"google-gemma-4-31B-it.jinja", "gemma4", "gemma4", "<|turn>model\n"},
    {"ibm-granite-granite-3.3-2B-Instruct.jinja", "granite", "granite"},
    {"meta-llama-Llama-3.1-8B-Instruct.jinja", "llama3_json", "none", "<|end_header_id|>\n\n",
     true},
    {"meta-llama-Llama-3.2-3B-Instruct.jinja", "llama3_json", "none", "<|end_header_id|>\n\n",
     true},
    {"microsoft-Phi-3.5-mini-instruct.jinja", "none", "none"},
    {"mistralai-Mistral-Nemo-Instruct-2407.jinja", "mistral", "none", "[/INST]"},
    {"moonshotai-Kimi-K2.jinja", "kimi_k2", "none", "<|im_assistant|>assistant<|im_middle|>"},
    {"openai-gpt-oss-120b.jinja", "openai", "openai_gptoss", "<|start|>assistant", true},
};

std::string source_of(std::string_view file) {
  std::ifstream stream(kTemplates / file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

bool templates_are_there() {
  if (fs::is_directory(kTemplates)) return true;
  EXPECT_EQ(std::getenv("CI"), nullptr) << kTemplates << " is missing";
  return false;
}

TEST(DialectChoice, NamesTheDialectOfEveryTemplate) {
  if (!templates_are_there()) GTEST_SKIP() << "no ../shared/data/chat_templates";
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(kTemplates)) {
    if (entry.path().extension() == ".jinja") ++count;
  }
  EXPECT_EQ(count, std::size(kChoices)) << "a template without a line in the table";
  for (const Choice& choice : kChoices) {
    const OutputDialect dialect = choose_dialect(source_of(choice.file));
    EXPECT_EQ(dialect.tools != nullptr ? dialect.tools->name : "none", choice.tools) << choice.file;
    EXPECT_EQ(dialect.reasoning != nullptr ? dialect.reasoning->name : "none", choice.reasoning)
        << choice.file;
  }
}

TEST(DialectChoice, SaysNothingOfATemplateWithoutMarks) {
  EXPECT_EQ(choose_dialect(""), OutputDialect());
  EXPECT_EQ(choose_dialect("{% for message in messages %}{{ message.content }}{% endfor %}"),
            OutputDialect());
}

// What the template writes for calls of an answer, from where the answer begins.
Result<std::string> written_answer(const Choice& choice, const std::vector<SampleCall>& calls) {
  QUIRE_ASSIGN_OR_RETURN(const ChatTemplate chat_template,
                         ChatTemplate::parse(source_of(choice.file), std::string(choice.file)));
  json::array list;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    json::value arguments = calls[i].arguments;
    if (choice.text_arguments) arguments = json::string(json::serialize(calls[i].arguments));
    list.push_back({{"id", "call0000" + std::to_string(i)},
                    {"type", "function"},
                    {"function", {{"name", calls[i].name}, {"arguments", arguments}}}});
  }
  json::object answer = {{"role", "assistant"}, {"content", ""}, {"tool_calls", list}};
  if (choice.text_arguments) answer["content"] = nullptr;
  ChatTemplateInput input;
  input.messages = {{{"role", "user"}, {"content", "What now?"}}, answer};
  // Simple ones: Hermes' template cannot write an array's type.
  QUIRE_ASSIGN_OR_RETURN(input.tools, parse_json(R"json([{"type": "function", "function": {
      "name": "get", "description": "Gets.", "parameters": {"type": "object", "properties": {
      "city": {"type": "string", "description": "Which."}}}}}])json",
                                                 "tools"));
  input.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  QUIRE_ASSIGN_OR_RETURN(const auto segments, chat_template.render(input));
  const std::string text = join(segments);
  const std::size_t at = text.find(choice.answer, text.find("What now?"));
  if (at == std::string::npos) return Status::internal("no answer in: " + text);
  return text.substr(at + choice.answer.size());
}

TEST(DialectChoice, ReadsWhatTheTemplateWrites) {
  if (!templates_are_there()) GTEST_SKIP() << "no ../shared/data/chat_templates";
  const auto tools = std::make_shared<const ToolSet>(sample_tools());
  for (const Choice& choice : kChoices) {
    if (choice.answer.empty()) continue;
    const OutputDialect dialect = choose_dialect(source_of(choice.file));
    const auto arguments = sample_arguments();
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      std::vector<SampleCall> calls = {{"get", arguments[i]}};
      if (!choice.one_call) calls.push_back({"set", arguments[(i + 1) % arguments.size()]});
      const auto text = written_answer(choice, calls);
      ASSERT_TRUE(text.ok()) << choice.file << ": " << text.status().to_string();
      SCOPED_TRACE(std::string(choice.file) + ": " + *text);
      const ParsedAnswer answer = parse_pieces(dialect, tools, ReasoningStart::kUnsaid, *text, {});
      ASSERT_EQ(answer.calls.size(), calls.size());
      for (std::size_t k = 0; k < calls.size(); ++k) {
        EXPECT_EQ(answer.calls[k].name, calls[k].name);
        const auto parsed = parse_json(answer.calls[k].arguments, "arguments");
        ASSERT_TRUE(parsed.ok()) << answer.calls[k].arguments;
        EXPECT_EQ(*parsed, json::value(calls[k].arguments)) << answer.calls[k].arguments;
      }
    }
  }
}

}  // namespace
}  // namespace quire
