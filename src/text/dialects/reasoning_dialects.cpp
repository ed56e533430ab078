// The dialects of reasoning, as data, and the names of both kinds.
#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

#include "text/dialects/dialect.h"

namespace quire {
namespace {

constexpr std::array kReasoningDialects = {
    ReasoningDialect{
        .name = "qwen3", .aliases = {"nemotron_v3", "mimo"}, .begin = "<think>", .end = "</think>"},
    ReasoningDialect{
        .name = "deepseek_r1", .begin = "<think>", .end = "</think>", .from_start = true},
    ReasoningDialect{
        .name = "deepseek_v3", .aliases = {"holo2"}, .begin = "<think>", .end = "</think>"},
    ReasoningDialect{.name = "glm45", .aliases = {"glm47"}, .begin = "<think>", .end = "</think>"},
    ReasoningDialect{.name = "kimi_k2", .begin = "<think>", .end = "</think>"},
    ReasoningDialect{
        .name = "minimax_m2", .begin = "<think>", .end = "</think>", .from_start = true},
    ReasoningDialect{.name = "step3",
                     .aliases = {"step3p5"},
                     .begin = "<think>",
                     .end = "</think>",
                     .from_start = true},
    ReasoningDialect{.name = "olmo3", .begin = "<think>", .end = "</think>", .from_start = true},
    ReasoningDialect{.name = "granite",
                     .begin = "<think>",
                     .end = "</think>",
                     .dropped = {"<response>", "</response>"}},
    ReasoningDialect{.name = "ernie45",
                     .begin = "<think>",
                     .end = "</think>",
                     .dropped = {"<response>", "</response>"}},
    ReasoningDialect{.name = "hunyuan_a13b",
                     .begin = "<think>",
                     .end = "</think>",
                     .dropped = {"<answer>", "</answer>"}},
    ReasoningDialect{.name = "seed_oss", .begin = "<seed:think>", .end = "</seed:think>"},
    ReasoningDialect{.name = "mistral", .begin = "[THINK]", .end = "[/THINK]"},
    ReasoningDialect{
        .name = "cohere_command3",
        .aliases = {"cohere_command4", "cohere"},
        .begin = "<|START_THINKING|>",
        .end = "<|END_THINKING|>",
        .dropped = {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"}},
    ReasoningDialect{.name = "gemma4", .begin = "<|channel>thought", .end = "<channel|>"},
    ReasoningDialect{.name = "openai_gptoss", .aliases = {"gptoss"}, .channels = true},
};

template <typename Dialect>
Result<const Dialect*> find_dialect(std::span<const Dialect> dialects, std::string_view name,
                                    std::string_view flag) {
  if (name == "none") return static_cast<const Dialect*>(nullptr);
  std::string known;
  for (const Dialect& dialect : dialects) {
    if (dialect.name == name) return &dialect;
    for (const std::string_view alias : dialect.aliases) {
      if (!alias.empty() && alias == name) return &dialect;
      if (!alias.empty()) known += fmt::format(", {}", alias);
    }
    known += fmt::format(", {}", dialect.name);
  }
  return Status::invalid_argument(
      fmt::format("{}: \"{}\" is no dialect that is known", flag, name.substr(0, 40)),
      fmt::format("expected auto, none{}", known));
}

bool is_within(std::string_view mark, std::string_view text) {
  return mark.find(text) != std::string_view::npos;
}

}  // namespace

std::span<const ReasoningDialect> reasoning_dialects() { return kReasoningDialects; }

Result<const ToolDialect*> find_tool_dialect(std::string_view name) {
  return find_dialect(tool_dialects(), name, "tool-call-parser");
}

Result<const ReasoningDialect*> find_reasoning_dialect(std::string_view name) {
  return find_dialect(reasoning_dialects(), name, "reasoning-parser");
}

bool is_part_of_mark(const OutputDialect& dialect, std::string_view text) {
  if (text.empty()) return false;
  const ToolDialect* tools = dialect.tools;
  const ReasoningDialect* reasoning = dialect.reasoning;
  if ((tools != nullptr && tools->channels) || (reasoning != nullptr && reasoning->channels)) {
    constexpr std::array<std::string_view, 7> kChannelMarks = {
        "<|start|>",     "<|channel|>", "<|message|>", "<|end|>",
        "<|constrain|>", "<|call|>",    "<|return|>"};
    return std::ranges::find(kChannelMarks, text) != kChannelMarks.end();
  }
  const auto holds = [text](std::string_view mark) { return is_within(mark, text); };
  if (tools != nullptr) {
    if (std::ranges::any_of(tools->begin, holds)) return true;
    for (const std::string_view mark :
         {tools->end, tools->call_begin, tools->call_end, tools->name_begin, tools->name_end,
          tools->id_mark, tools->arguments_end, tools->key_begin, tools->key_end,
          tools->value_begin, tools->value_end, tools->string_mark}) {
      if (holds(mark)) return true;
    }
  }
  if (reasoning == nullptr) return false;
  return holds(reasoning->begin) || holds(reasoning->end) ||
         std::ranges::any_of(reasoning->dropped, holds);
}

}  // namespace quire
