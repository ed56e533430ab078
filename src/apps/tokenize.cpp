// `quire tokenize` and `quire detokenize`: text to token ids and back.
#include <memory>

#include <boost/json/value_from.hpp>
#include <fmt/format.h>

#include "apps/commands.h"
#include "apps/engine_flags.h"
#include "apps/flag_values.h"
#include "apps/help.h"
#include "apps/jsonl.h"
#include "apps/local_model.h"
#include "apps/output_file.h"
#include "apps/terminal.h"
#include "apps/token_view.h"
#include "load/model_bundle.h"

namespace quire {
namespace {

struct TokenizeFlags {
  std::string model;
  std::optional<std::string> text;
  std::string input;
  bool json = false;
  bool no_special_tokens = false;
  bool parse_special = false;
  ColorMode color = ColorMode::kAuto;
};

struct DetokenizeFlags {
  std::string model;
  std::optional<std::string> ids;
  std::string input;
  bool json = false;
  bool skip_special_tokens = false;
};

Result<std::unique_ptr<const Tokenizer>> open_tokenizer(std::string model) {
  QUIRE_ASSIGN_OR_RETURN(model, local_model(model));
  QUIRE_ASSIGN_OR_RETURN(TextBundle text, open_text(model));
  return std::move(text.tokenizer);
}

Status check_ids(const Tokenizer& tokenizer, const std::vector<TokenId>& ids,
                 const std::string& where) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (tokenizer.contains(ids[i])) continue;
    return Status::invalid_argument(
        fmt::format("{}[{}]: {} is not a token id of this model, whose vocabulary has {} (0 to {})",
                    where, i, ids[i], tokenizer.vocab_size(), tokenizer.vocab_size() - 1));
  }
  return {};
}

// "1,2,3", with or without spaces or brackets, as people paste them.
Result<std::vector<TokenId>> parse_ids(const std::string& text) {
  const bool bracketed = text.find('[') != std::string::npos;
  auto value = parse_json(bracketed ? text : fmt::format("[{}]", text), "--ids");
  if (!value.ok()) {
    return Status::invalid_argument(fmt::format("--ids: \"{}\" is not a list of token ids", text),
                                    "give them like --ids 1,2,3");
  }
  const json::object object = {{"ids", std::move(*value)}};
  return read_token_ids(JsonReader(object, "--ids", StatusCode::kInvalidArgument), "ids");
}

// For `command`, whose input is one of --`option` and --input.
Status check_sources(std::string_view command, std::string_view option, bool has_option,
                     bool has_input) {
  if (has_option != has_input) return {};
  return Status::invalid_argument(
      has_option ? fmt::format("{} takes only one of --{} and --input", command, option)
                 : fmt::format("{} needs an input", command),
      fmt::format("give one of --{} and --input FILE", option));
}

Status run_lines(const std::string& path,
                 const std::function<Result<json::object>(const JsonReader& line)>& transform) {
  QUIRE_ASSIGN_OR_RETURN(const auto input, open_input(path));
  QUIRE_ASSIGN_OR_RETURN(OutputFile output, OutputFile::create("-"));
  QUIRE_ASSIGN_OR_RETURN(const LineCounts counts, transform_lines(*input, output, transform));
  if (counts.errors > 0) {
    fmt::print(stderr, "{} of {} lines have errors\n", counts.errors, counts.lines);
  }
  return {};
}

Status run_tokenize(const TokenizeFlags& flags) {
  QUIRE_RETURN_IF_ERROR(
      check_sources("tokenize", "text", flags.text.has_value(), !flags.input.empty()));
  QUIRE_ASSIGN_OR_RETURN(const auto tokenizer, open_tokenizer(flags.model));
  const EncodeOptions options = {.add_special_tokens = !flags.no_special_tokens,
                                 .parse_special = flags.parse_special};
  if (!flags.text) {
    return run_lines(flags.input, [&](const JsonReader& line) -> Result<json::object> {
      static constexpr std::array<std::string_view, 2> kTextFields = {"id", "text"};
      QUIRE_RETURN_IF_ERROR(check_fields(line, kTextFields));
      QUIRE_ASSIGN_OR_RETURN(const std::string text, line.get_string("text"));
      QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, tokenizer->encode(text, options));
      return json::object{{"token_ids", json::value_from(ids)}};
    });
  }
  QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, tokenizer->encode(*flags.text, options));
  QUIRE_ASSIGN_OR_RETURN(OutputFile output, OutputFile::create("-"));
  if (flags.json) {
    const json::object record = {{"token_ids", json::value_from(ids)}};
    return output.write(json::serialize(record) + "\n");
  }
  return output.write(
      fmt::format("{}{}\n", token_rows(*tokenizer, ids, terminal_width(), use_color(flags.color)),
                  token_counts(*tokenizer, ids)));
}

Status run_detokenize(const DetokenizeFlags& flags) {
  QUIRE_RETURN_IF_ERROR(
      check_sources("detokenize", "ids", flags.ids.has_value(), !flags.input.empty()));
  std::vector<TokenId> ids;
  if (flags.ids) {
    QUIRE_ASSIGN_OR_RETURN(ids, parse_ids(*flags.ids));
  }
  QUIRE_ASSIGN_OR_RETURN(const auto tokenizer, open_tokenizer(flags.model));
  const bool skip = flags.skip_special_tokens;
  if (!flags.ids) {
    return run_lines(flags.input, [&](const JsonReader& line) -> Result<json::object> {
      static constexpr std::array<std::string_view, 2> kTextFields = {"id", "token_ids"};
      QUIRE_RETURN_IF_ERROR(check_fields(line, kTextFields));
      QUIRE_ASSIGN_OR_RETURN(const auto token_ids, read_token_ids(line, "token_ids"));
      QUIRE_RETURN_IF_ERROR(check_ids(*tokenizer, token_ids, line.where() + ": token_ids"));
      return json::object{{"text", tokenizer->decode(token_ids, skip)}};
    });
  }
  QUIRE_RETURN_IF_ERROR(check_ids(*tokenizer, ids, "--ids"));
  const std::string text = tokenizer->decode(ids, skip);
  QUIRE_ASSIGN_OR_RETURN(OutputFile output, OutputFile::create("-"));
  if (!flags.json) return output.write_text(text + "\n");
  const json::object record = {{"text", text}};
  return output.write_text(json::serialize(record) + "\n");
}

void add_model_option(CLI::App& app, std::string& model) {
  add_model(app, model,
            "ORG/NAME of the Hugging Face hub, a folder in its layout, or a .gguf file; a "
            "tokenizer without weights is enough (default: the bundled model)",
            "Options");
}

}  // namespace

Command add_tokenize(CLI::App& app) {
  auto flags = std::make_shared<TokenizeFlags>();
  set_help(app,
           {{{"quire tokenize --text 'Hello, world!'", "the tokens of a text with their ids"},
             {"quire tokenize MODEL --input texts.jsonl", "by another model, of many texts"}}});
  add_model_option(app, flags->model);
  app.add_option("--text", flags->text, "Text to tokenize")->type_name("TEXT");
  app.add_option("--input", flags->input,
                 "JSON lines {\"text\"} to tokenize; prints lines {\"id\", \"token_ids\"}; - is "
                 "standard input")
      ->type_name("FILE");
  app.add_flag("--json", flags->json, "Print {\"token_ids\"} instead of the picture");
  app.add_flag("--no-special-tokens", flags->no_special_tokens,
               "Add no BOS or EOS, even if the model wants them");
  app.add_flag("--parse-special", flags->parse_special,
               "Treat control tokens spelled in the text, like <|im_end|>, as control tokens");
  add_color_option(app, flags->color);
  app.footer(
      "Tokens are shown above their ids. Spaces are shown as ·, newlines as ↵, tabs as →, bytes "
      "that are not a whole character as <0xE2>. Control tokens are marked with a star.");
  return [flags] { return run_tokenize(*flags); };
}

Command add_detokenize(CLI::App& app) {
  auto flags = std::make_shared<DetokenizeFlags>();
  set_help(app,
           {{{"quire detokenize --ids 19556,28,905", "the text of these tokens"},
             {"quire detokenize MODEL --input ids.jsonl", "by another model, of many lists"}}});
  add_model_option(app, flags->model);
  app.add_option("--ids", flags->ids, "Token ids, like 1,2,3")->type_name("IDS");
  app.add_option("--input", flags->input,
                 "JSON lines {\"token_ids\"} to detokenize; prints lines {\"id\", \"text\"}; - is "
                 "standard input")
      ->type_name("FILE");
  app.add_flag("--json", flags->json, "Print {\"text\"} instead of the text");
  app.add_flag("--skip-special-tokens", flags->skip_special_tokens,
               "Leave control tokens out of the text");
  return [flags] { return run_detokenize(*flags); };
}

}  // namespace quire
