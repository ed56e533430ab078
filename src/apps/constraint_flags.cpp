#include "apps/constraint_flags.h"

#include <utility>
#include <vector>

#include "base/file.h"
#include "core/structured_outputs.h"

namespace quire {
namespace {

json::object& constraint_of(json::object& given) {
  json::value& value = given["structured_outputs"];
  if (!value.is_object()) value = json::object();
  return value.get_object();
}

// A file's content, as JSON Schema and grammars have it.
std::string content_of(const std::string& flag, const std::string& path) {
  auto content = read_file(path, StructuredOutputsParams::kMaxBytes);
  if (!content.ok()) throw CLI::ValidationError(flag, content.status().to_string());
  return *std::move(content);
}

// No file is called by an object of JSON.
std::string schema_of(const std::string& flag, const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  return begin != std::string::npos && text[begin] == '{' ? text : content_of(flag, text);
}

}  // namespace

void add_constraint_flags(CLI::App& app, json::object& given, const std::string& group) {
  app.add_option_function<std::string>(
         "--json-schema",
         [&given](const std::string& text) {
           constraint_of(given)["json"] = schema_of("--json-schema", text);
         },
         "The text is JSON that is valid under this JSON Schema: a file, or the schema itself")
      ->type_name("FILE|JSON")
      ->group(group);
  app.add_flag_function(
         "--json-object",
         [&given](std::int64_t count) { constraint_of(given)["json_object"] = count > 0; },
         "The text is a JSON object")
      ->group(group);
  app.add_option_function<std::string>(
         "--regex", [&given](const std::string& text) { constraint_of(given)["regex"] = text; },
         "The whole text matches this regular expression")
      ->type_name("PATTERN")
      ->group(group);
  app.add_option_function<std::vector<std::string>>(
         "--choice",
         [&given](const std::vector<std::string>& texts) {
           constraint_of(given)["choice"] = json::array(texts.begin(), texts.end());
         },
         "The text is one of the choices; give the flag once for each")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("TEXT")
      ->group(group);
  app.add_option_function<std::string>(
         "--grammar",
         [&given](const std::string& path) {
           constraint_of(given)["grammar"] = content_of("--grammar", path);
         },
         "The text conforms to this grammar, a file in GBNF, EBNF or Lark")
      ->type_name("FILE")
      ->group(group);
}

}  // namespace quire
