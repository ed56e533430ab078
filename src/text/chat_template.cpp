#include "text/chat_template.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "text/jinja/budget.h"
#include "text/jinja/from_json.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/parser.h"

namespace quire {
namespace {

Status located(const std::string& where, int line, const Status& status) {
  std::string place = where;
  if (line > 0) place += ", line " + std::to_string(line);
  return {status.code(), place + ": " + status.message(), status.remedy()};
}

}  // namespace

struct ChatTemplate::Parsed {
  jinja::Block body;
  std::string source;
};

const std::string& ChatTemplate::source() const { return parsed_->source; }

Result<ChatTemplate> ChatTemplate::parse(const std::string& source, std::string where) {
  Result<jinja::Block> body = jinja::parse_template(source);
  if (!body.ok()) {
    const Status status = body.status();
    const bool has_line = status.message().starts_with("line ");
    return Status(status.code(), where + (has_line ? ", " : ": ") + status.message(),
                  status.remedy());
  }
  auto parsed = std::make_shared<Parsed>();
  parsed->body = std::move(body).value();
  parsed->source = source;
  return ChatTemplate(std::move(parsed), std::move(where));
}

Result<std::vector<TextSegment>> ChatTemplate::render(const ChatTemplateInput& input) const {
  jinja::Budget budget(input.limits.max_steps, input.limits.max_bytes);
  jinja::Interpreter interpreter({input.local_time, input.limits.max_output_bytes}, budget);
  const auto set_json = [&](const std::string& name, const json::value& value) -> Status {
    Result<jinja::Value> converted = name == "messages" && value.is_array()
                                         ? jinja::messages_from_json(value.get_array(), budget)
                                         : jinja::from_json(value, budget);
    if (!converted.ok())
      return located(where_ + ", variable '" + name + "'", 0, converted.status());
    interpreter.set_variable(name, std::move(converted).value());
    return {};
  };
  for (const auto& [name, token] : input.special_tokens) {
    interpreter.set_variable(name, jinja::Value::string(token, true));
  }
  for (const auto& entry : input.kwargs) {
    QUIRE_RETURN_IF_ERROR(set_json(std::string(entry.key()), entry.value()));
  }
  QUIRE_RETURN_IF_ERROR(set_json("messages", input.messages));
  QUIRE_RETURN_IF_ERROR(set_json("tools", input.tools.value_or(nullptr)));
  QUIRE_RETURN_IF_ERROR(set_json("documents", input.documents.value_or(nullptr)));
  interpreter.set_variable("add_generation_prompt",
                           jinja::Value::boolean(input.add_generation_prompt));

  Result<jinja::Text> text = interpreter.run(parsed_->body);
  if (!text.ok()) return located(where_, interpreter.error_line(), text.status());
  return text->segments();
}

std::string join(const std::vector<TextSegment>& segments) {
  std::string out;
  for (const TextSegment& segment : segments) out += segment.text;
  return out;
}

}  // namespace quire
