#include "server_settings.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/json.h"
#include "base/nearest.h"
#include "base/printable.h"
#include "engine_settings.h"

namespace quire::python {
namespace {

std::string flag_of(std::string_view key) {
  std::string flag = "--" + std::string(key);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (std::string name : option->get_lnames()) {
      std::ranges::replace(name, '-', '_');
      names.push_back(std::move(name));
    }
  }
  return names;
}

// "--max-connections=8"; of a list, one for each item.
Result<std::vector<std::string>> flag_words(std::string_view key, const json::value& value) {
  const std::string begin = flag_of(key) + "=";
  if (value.is_string()) return std::vector{begin + std::string(value.get_string())};
  if (!value.is_array()) return std::vector{begin + json::serialize(value)};
  std::vector<std::string> words;
  for (const json::value& item : value.get_array()) {
    if (!item.is_string()) {
      return Status::invalid_argument(fmt::format("{}: expected a list of strings", key));
    }
    words.push_back(begin + std::string(item.get_string()));
  }
  return words;
}

Status unknown_name(std::string_view key, const std::vector<std::string>& known) {
  const auto near = nearest(std::string(key), known);
  return Status::invalid_argument(
      fmt::format("a server has no setting \"{}\"", printable(key, 60)),
      near ? fmt::format("did you mean {}?", *near) : "see help(quire.serve)");
}

// What of `object` the server does not know.
Result<json::object> engine_part(const json::object& object, const std::vector<std::string>& known,
                                 bool with_engine) {
  json::object engine;
  for (const auto& entry : object) {
    const std::string_view key = entry.key();
    if (std::ranges::find(known, key) != known.end()) continue;
    if (!with_engine && is_engine_setting(key)) {
      return Status::invalid_argument(
          fmt::format("{} is a setting of the engine, which is there already", key),
          "give it to LLM(...), or serve a model by its name");
    }
    if (!with_engine) return unknown_name(key, known);
    engine[key] = entry.value();
  }
  if (!with_engine) return engine;
  std::vector<std::string> notes;  // whoever starts the engine tells them
  QUIRE_RETURN_IF_ERROR(read_engine_settings(json::serialize(engine), notes, known).status());
  return engine;
}

}  // namespace

Result<ServerSettings> read_server_settings(std::string_view text, bool with_engine) {
  QUIRE_ASSIGN_OR_RETURN(const json::value value, parse_json(text, "serve"));
  if (!value.is_object()) return Status::invalid_argument("serve: expected an object");
  const json::object& object = value.get_object();
  ServerSettings settings;
  settings.flags.default_batch_database = false;
  CLI::App app;
  app.set_help_flag();
  add_server_flags(app, settings.flags);
  const std::vector<std::string> known = names_of(app);
  QUIRE_ASSIGN_OR_RETURN(const json::object engine, engine_part(object, known, with_engine));
  settings.engine_settings = json::serialize(engine);

  std::vector<std::string> words;
  for (const auto& entry : object) {
    const std::string_view key = entry.key();
    if (entry.value().is_null() || engine.contains(key)) continue;
    QUIRE_ASSIGN_OR_RETURN(const auto of_key, flag_words(key, entry.value()));
    words.insert(words.end(), of_key.begin(), of_key.end());
  }
  std::ranges::reverse(words);  // as CLI11 takes them
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    return Status::invalid_argument(error.what(), "quire serve --help says what a flag may be");
  }
  QUIRE_RETURN_IF_ERROR(complete_server_flags(settings.flags));
  return settings;
}

}  // namespace quire::python
