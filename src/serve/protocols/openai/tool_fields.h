// The fields of requests that are about tools, and how an answer with calls is read.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "engine/api.h"
#include "serve/generation/answer_reader.h"
#include "serve/models/answer_dialect.h"
#include "text/dialects/answer_form.h"

namespace quire {

inline constexpr std::size_t kMaxTools = 1024;  // of a request
// Whether a function may be called so: 1 to 128 letters, digits, and any of _ - . : /
bool is_tool_name(std::string_view name);

struct ToolFields {
  // As templates get them: {"type": "function", "function": {...}}. Empty: none is to be called,
  // and the model is told of none.
  json::array tools;
  // Those of them that may be called.
  std::vector<AnswerForm::Function> callable;
  // A call has to come.
  bool required = false;
  bool parallel_calls = true;
};

// `tools`, `tool_choice` and `parallel_tool_calls` of a chat completion, or of a response, whose
// tools have their fields beside their type. Errors (kInvalidArgument; kUnimplemented where the
// model's template has no place for tools, or its dialect is not known) begin with the field.
enum class ToolForm : std::uint8_t { kChat, kResponse };
Result<ToolFields> read_tools(const JsonReader& fields, ToolForm form, const Engine& engine,
                              const AnswerDialect& dialect);

// How the answer to `prompt` is read. What a call, a schema or a budget of reasoning asks of the
// form of the whole answer goes to `params.structured_outputs`, around the constraint that stands
// there. kInvalidArgument for a budget of a model without reasoning.
Result<AnswerParsing> hold_answer(const ToolFields& tools,
                                  std::optional<std::int64_t> thinking_budget,
                                  const AnswerDialect& dialect, const Tokenizer& tokenizer,
                                  std::span<const TokenId> prompt, SamplingParams& params);

// `thinking_token_budget`: tokens of reasoning, at least 0.
Result<std::optional<std::int64_t>> read_thinking_budget(const JsonReader& fields);

// `reasoning_effort` becomes a variable of a template that knows it. kInvalidArgument for a word
// that is no effort.
Status read_reasoning_effort(const std::optional<std::string>& effort, std::string_view field,
                             std::string_view chat_template, json::object& kwargs);

}  // namespace quire
