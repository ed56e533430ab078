#include "apps/command_facts.h"

#include <algorithm>
#include <utility>

#include "apps/flag_values.h"

namespace quire {
namespace {

std::string full_command_name(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent == nullptr ? app.get_name() : full_command_name(*parent) + " " + app.get_name();
}

std::vector<std::string> split(const std::string& text, char mark) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(mark, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// CLI11 writes a vector's default as "[1,4]".
std::string without_brackets(const std::string& text) {
  const bool list = text.size() >= 2 && text.front() == '[' && text.back() == ']';
  return list ? text.substr(1, text.size() - 2) : text;
}

void add_flag_names(const CLI::Option& option, FlagFacts& facts) {
  const std::vector<std::string>& negated = option.get_fnames();
  for (const std::string& name : option.get_snames()) facts.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) {
    const bool is_negated = std::ranges::find(negated, name) != negated.end();
    (is_negated ? facts.negated : facts.names).push_back("--" + name);
  }
}

FlagFacts flag_facts(const CLI::Option& option) {
  FlagFacts facts;
  if (option.get_positional()) {
    facts.names = {option.get_name(true)};
  } else {
    add_flag_names(option, facts);
  }
  facts.description = option.get_description();
  facts.group = option.get_group();
  facts.variable = option.get_envname();
  facts.required = option.get_required();
  if (option.get_type_size() == 0) return facts;  // it has no value
  // The name of the value, then what flag_values.h says of it.
  const std::string type = option.get_type_name();
  const std::size_t mark = std::min(type.find(':'), type.size());
  facts.value = type.substr(0, mark);
  const std::string rule = type.substr(std::min(mark + 1, type.size()));
  if (rule.find('|') != std::string::npos) {
    facts.choices = split(rule, '|');
  } else {
    facts.range = rule;
  }
  facts.standard = without_brackets(option.get_default_str());
  facts.several = option.get_expected_max() > 1 ||
                  option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
  return facts;
}

json::object flag_json(const FlagFacts& flag) {
  const auto list = [](const std::vector<std::string>& texts) {
    return json::array(texts.begin(), texts.end());
  };
  return {{"names", list(flag.names)},
          {"negated", list(flag.negated)},
          {"value", flag.value},
          {"choices", list(flag.choices)},
          {"range", flag.range},
          {"default", flag.standard},
          {"variable", flag.variable},
          {"group", flag.group},
          {"several", flag.several},
          {"required", flag.required},
          {"description", flag.description}};
}

}  // namespace

CommandFacts command_facts(const CLI::App& app) {
  CommandFacts facts;
  facts.name = full_command_name(app);
  facts.description = app.get_description();
  for (const CLI::Option* option : app.get_options({})) {
    if (option->get_group().empty()) continue;  // hidden
    (option->get_positional() ? facts.arguments : facts.flags).push_back(flag_facts(*option));
  }
  // The ranges' form does not compile with clang 14.
  std::stable_partition(facts.flags.begin(), facts.flags.end(), [](const FlagFacts& flag) {
    return !flag.group.starts_with(kRarelyNeeded);
  });
  for (const CLI::App* command : app.get_subcommands({})) {
    facts.commands.push_back(command_facts(*command));
  }
  return facts;
}

json::object to_json(const CommandFacts& command) {
  json::array arguments;
  for (const FlagFacts& each : command.arguments) arguments.push_back(flag_json(each));
  json::array flags;
  for (const FlagFacts& each : command.flags) flags.push_back(flag_json(each));
  json::array commands;
  for (const CommandFacts& each : command.commands) commands.push_back(to_json(each));
  return {{"name", command.name},
          {"description", command.description},
          {"arguments", std::move(arguments)},
          {"flags", std::move(flags)},
          {"commands", std::move(commands)}};
}

}  // namespace quire
