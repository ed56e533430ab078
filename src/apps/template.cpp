// `quire template`: the prompt that a conversation becomes, and its token ids.
#include <memory>

#include <boost/json/value_from.hpp>
#include <fmt/format.h>

#include "apps/commands.h"
#include "apps/conversation.h"
#include "apps/engine_flags.h"
#include "apps/flag_values.h"
#include "apps/help.h"
#include "apps/jsonl.h"
#include "apps/local_model.h"
#include "apps/output_file.h"
#include "apps/terminal.h"
#include "apps/token_view.h"
#include "base/file.h"
#include "engine/chat_input.h"
#include "load/model_bundle.h"

namespace quire {
namespace {

constexpr std::size_t kMaxConversationBytes = 64U << 20;
constexpr std::uint64_t kMaxTemplateBytes = 4U << 20;

struct TemplateFlags {
  std::string model;
  std::string input;
  std::string chat_template;
  bool json = false;
  ColorMode color = ColorMode::kAuto;
};

Result<Conversation> read_conversation(const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(const auto stream, open_input(path));
  QUIRE_ASSIGN_OR_RETURN(const std::string text, read_all(*stream, kMaxConversationBytes));
  const std::string where = path == "-" ? "standard input" : path;
  QUIRE_ASSIGN_OR_RETURN(const json::value value, parse_json(text, where));
  return parse_conversation(value, where);
}

Result<ChatTemplate> choose_template(TextBundle& text, const TemplateFlags& flags) {
  if (!flags.chat_template.empty()) {
    QUIRE_ASSIGN_OR_RETURN(const auto source, read_file(flags.chat_template, kMaxTemplateBytes));
    return ChatTemplate::parse(source, flags.chat_template);
  }
  if (!text.chat_template) {
    return Status::config(fmt::format("the model {} has no chat template", flags.model),
                          "name one with --chat-template FILE");
  }
  return *std::move(text.chat_template);
}

// The prompt with its control tokens set apart: those are tokens of the template, whatever the
// messages spell.
Result<std::string> shown_prompt(const Tokenizer& tokenizer,
                                 const std::vector<TextSegment>& segments, bool color) {
  if (!color) return join(segments);
  std::string shown;
  for (const TextSegment& segment : segments) {
    if (!segment.is_template) {
      shown += segment.text;
      continue;
    }
    QUIRE_ASSIGN_OR_RETURN(
        const std::vector<TokenId> ids,
        tokenizer.encode(segment.text, {.add_special_tokens = false, .parse_special = true}));
    for (const TokenId id : ids) {
      const std::string_view text = tokenizer.is_special(id) ? tokenizer.token_text(id) : "";
      shown += text.empty() ? std::string(tokenizer.token_bytes(id)) : as_control(text, true);
    }
  }
  return shown;
}

Status run_template(TemplateFlags flags) {
  if (flags.input.empty()) {
    return Status::invalid_argument("template needs a conversation",
                                    "give --input FILE, or --input - for standard input");
  }
  QUIRE_ASSIGN_OR_RETURN(const Conversation conversation, read_conversation(flags.input));
  QUIRE_ASSIGN_OR_RETURN(flags.model, local_model(flags.model));
  QUIRE_ASSIGN_OR_RETURN(TextBundle text, open_text(flags.model));
  QUIRE_ASSIGN_OR_RETURN(const ChatTemplate chat_template, choose_template(text, flags));
  const Tokenizer& tokenizer = *text.tokenizer;
  QUIRE_ASSIGN_OR_RETURN(const auto segments,
                         render_conversation(chat_template, conversation, chat_input(tokenizer)));
  QUIRE_ASSIGN_OR_RETURN(
      const std::vector<TokenId> ids,
      tokenizer.encode(std::span<const TextSegment>(segments), /*add_special_tokens=*/false));

  QUIRE_ASSIGN_OR_RETURN(OutputFile output, OutputFile::create("-"));
  if (flags.json) {
    json::array control;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (tokenizer.is_special(ids[i])) control.emplace_back(i);
    }
    const json::object record = {{"prompt", join(segments)},
                                 {"token_ids", json::value_from(ids)},
                                 {"control_token_positions", std::move(control)}};
    return output.write_text(json::serialize(record) + "\n");
  }
  const bool color = use_color(flags.color);
  QUIRE_ASSIGN_OR_RETURN(const std::string shown, shown_prompt(tokenizer, segments, color));
  return output.write(fmt::format("{}\n\n{}{}\n", shown,
                                  token_rows(tokenizer, ids, terminal_width(), color),
                                  token_counts(tokenizer, ids)));
}

}  // namespace

Command add_template(CLI::App& app) {
  auto flags = std::make_shared<TemplateFlags>();
  set_help(app, {{{"quire template --input conversation.json", "the prompt of the bundled model"},
                  {"quire template MODEL --input - --json", "of another model, for programs"}}});
  add_model(app, flags->model,
            "ORG/NAME of the Hugging Face hub, a folder in its layout, or a .gguf file; a "
            "tokenizer without weights is enough (default: the bundled model)",
            "Options");
  app.add_option("--input", flags->input,
                 "JSON file with a list of messages, or an object with messages and optionally "
                 "tools, documents, chat_template_kwargs, add_generation_prompt (default true), "
                 "continue_final_message; - is standard input")
      ->type_name("FILE");
  app.add_option("--chat-template", flags->chat_template,
                 "Jinja file to use instead of the model's template")
      ->type_name("FILE");
  app.add_flag("--json", flags->json,
               "Print one JSON object: prompt, token_ids, control_token_positions");
  add_color_option(app, flags->color);
  app.footer(
      "Below the prompt are its tokens, each above its id. Control tokens are marked with a star "
      "(in colour: with a background); text of a message never becomes one.");
  return [flags] { return run_template(*flags); };
}

}  // namespace quire
