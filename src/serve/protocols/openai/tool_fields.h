// The fields of requests that are about tools, and how an answer with calls is read.
#pragma once

#include <optional>
#include <span>

#include "base/json.h"
#include "serve/generation/answer_reader.h"
#include "serve/models/served_model.h"

namespace quire {

struct ToolFields {
  // As templates take them: {"type": "function", "function": {...}}. Empty: none is to be called,
  // and the model is told of none.
  json::array tools;
  bool parallel_calls = true;
};

// `tools`, `tool_choice` and `parallel_tool_calls` of a chat completion, or of a response, whose
// tools have their fields beside their type. Errors (kInvalidArgument; kUnimplemented where the
// model's template has no place for tools, or its dialect is not known) begin with the field.
enum class ToolForm : std::uint8_t { kChat, kResponse };
Result<ToolFields> read_tools(const JsonReader& fields, ToolForm form, const ServedModel& served);

// How answers to `prompt` are read, with the special tokens that have to be shown for it.
AnswerParsing answer_parsing(const ToolFields& tools, const ServedModel& served,
                             std::span<const TokenId> prompt);

// `reasoning_effort` becomes a variable of a template that knows it. kInvalidArgument for a word
// that is no effort.
Status read_reasoning_effort(const std::optional<std::string>& effort, std::string_view field,
                             std::string_view chat_template, json::object& kwargs);

}  // namespace quire
