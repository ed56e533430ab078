#include "apps/dialect_flags.h"

#include <optional>
#include <string_view>

namespace quire {
namespace {

// The name of a dialect: auto leaves `target` to the chat template.
template <typename Dialect>
void add_dialect(CLI::App& app, const std::string& name, std::optional<const Dialect*>& target,
                 Result<const Dialect*> (*find)(std::string_view), const std::string& description,
                 const std::string& group) {
  app.add_option_function<std::string>(
         name,
         [&target, name, find](const std::string& text) {
           target.reset();
           if (text == "auto") return;
           const auto dialect = find(text);
           if (!dialect.ok()) throw CLI::ValidationError(name, dialect.status().to_string());
           target = *dialect;
         },
         description)
      ->type_name("NAME")
      ->default_str("auto")
      ->group(group);
}

}  // namespace

void add_dialect_flags(CLI::App& app, DialectChoice& choice, const std::string& group) {
  add_dialect(app, "--tool-call-parser", choice.tools, find_tool_dialect,
              "How the model writes tool calls: hermes, llama3_json, mistral, ... (docs/tools.md), "
              "none, or auto: recognized by its chat template",
              group);
  add_dialect(
      app, "--reasoning-parser", choice.reasoning, find_reasoning_dialect,
      "How the model writes reasoning: qwen3, deepseek_r1, openai_gptoss, ..., none, or auto",
      group);
}

}  // namespace quire
