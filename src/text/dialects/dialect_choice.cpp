// Which dialect a chat template's source shows: by the marks that it writes around calls of the
// past, or tells the model to write.
#include <array>

#include "text/dialects/dialect.h"

namespace quire {
namespace {

// The first rule whose marks the source has, all of them, decides.
struct ChoiceRule {
  std::array<std::string_view, 2> marks;
  std::string_view dialect;
};

constexpr std::array kToolRules = {
    ChoiceRule{{"<|channel|>", "<|message|>"}, "openai"},
    ChoiceRule{{"<|tool_calls_section_begin|>"}, "kimi_k2"},
    ChoiceRule{{"<｜tool▁calls▁begin｜>", "```"}, "deepseek_v3"},
    ChoiceRule{{"<｜tool▁calls▁begin｜>"}, "deepseek_v31"},
    ChoiceRule{{"<|tool_call>call:"}, "gemma4"},
    ChoiceRule{{"<start_function_call>"}, "functiongemma"},
    ChoiceRule{{"<minimax:tool_call>"}, "minimax_m2"},
    ChoiceRule{{"<seed:tool_call>"}, "seed_oss"},
    ChoiceRule{{"<longcat_tool_call>"}, "longcat"},
    ChoiceRule{{"<arg_key>", "<tool_call>"}, "glm45"},
    ChoiceRule{{"<function=", "<parameter="}, "qwen3_coder"},
    ChoiceRule{{"[TOOL_CALLS]"}, "mistral"},
    ChoiceRule{{"<|START_ACTION|>"}, "cohere_command3"},
    ChoiceRule{{"functools"}, "phi4_mini_json"},
    ChoiceRule{{"<|tool_call_start|>"}, "lfm2"},
    ChoiceRule{{"<|action_start|>"}, "internlm"},
    ChoiceRule{{"<function_calls>"}, "olmo3"},
    ChoiceRule{{"<tool_calls>"}, "minimax"},
    ChoiceRule{{"<|tool_call|>", "<|/tool_call|>"}, "phi4_mini_json"},
    ChoiceRule{{"<|tool_call|>"}, "granite"},
    ChoiceRule{{"<tool_call>"}, "hermes"},
    ChoiceRule{{"<|python_start|>"}, "llama4_pythonic"},
    ChoiceRule{{"<function=", "</function>"}, "functionary"},
    ChoiceRule{{"{\"name\": function name, \"parameters\": dictionary"}, "llama3_json"},
    ChoiceRule{{"<|python_tag|>"}, "llama3_json"},
};

constexpr std::array kReasoningRules = {
    ChoiceRule{{"<|channel|>", "<|message|>"}, "openai_gptoss"},
    ChoiceRule{{"<|channel>thought"}, "gemma4"},
    ChoiceRule{{"<|START_THINKING|>"}, "cohere_command3"},
    ChoiceRule{{"[THINK]"}, "mistral"},
    ChoiceRule{{"<seed:think>"}, "seed_oss"},
    ChoiceRule{{"<think>", "<response>"}, "granite"},
    ChoiceRule{{"<think>", "<answer>"}, "hunyuan_a13b"},
    ChoiceRule{{"<think>", "<arg_key>"}, "glm45"},
    ChoiceRule{{"<think>", "<｜User｜>"}, "deepseek_v3"},
    ChoiceRule{{"<think>", "<|tool_calls_section_begin|>"}, "kimi_k2"},
    ChoiceRule{{"<think>"}, "qwen3"},
    ChoiceRule{{"</think>"}, "qwen3"},
};

template <std::size_t kCount>
std::string_view choose(const std::array<ChoiceRule, kCount>& rules, std::string_view source) {
  for (const ChoiceRule& rule : rules) {
    bool has_all = true;
    for (const std::string_view mark : rule.marks) {
      has_all = has_all && source.find(mark) != std::string_view::npos;
    }
    if (has_all) return rule.dialect;
  }
  return "none";
}

}  // namespace

OutputDialect choose_dialect(std::string_view chat_template) {
  OutputDialect dialect;
  const auto tools = find_tool_dialect(choose(kToolRules, chat_template));
  if (tools.ok()) dialect.tools = *tools;
  const auto reasoning = find_reasoning_dialect(choose(kReasoningRules, chat_template));
  if (reasoning.ok()) dialect.reasoning = *reasoning;
  return dialect;
}

}  // namespace quire
