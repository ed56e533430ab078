// `quire completion`, and what it prints. The scripts have no knowledge of their own: each is a
// walk over the commands and their flags.
#include "apps/completion.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/commands.h"
#include "apps/flag_values.h"
#include "apps/help.h"
#include "apps/output_file.h"

namespace quire {
namespace {

std::vector<std::string> all_names(const FlagFacts& flag) {
  std::vector<std::string> names = flag.names;
  names.insert(names.end(), flag.negated.begin(), flag.negated.end());
  return names;
}

std::string last_word(const std::string& name) { return name.substr(name.rfind(' ') + 1); }

// A command's name without the program's: "bench core", empty for the program itself.
std::string below_program(const CommandFacts& command) {
  const std::size_t space = command.name.find(' ');
  return space == std::string::npos ? "" : command.name.substr(space + 1);
}

bool is_path(const FlagFacts& flag) {
  return flag.value == "FILE" || flag.value == "DIR" || flag.value == "MODEL";
}

bool takes_path(const CommandFacts& command) {
  return std::ranges::any_of(command.arguments, is_path);
}

// With `mark` doubled, escaped or left out as the place where the text goes needs it.
std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
  return text;
}

std::string single_quoted(const std::string& text) {
  return "'" + replaced(text, "'", "'\\''") + "'";
}

// The cases of `case "$command $flag"` in bash: what may follow a flag with a value.
void add_bash_values(const CommandFacts& command, std::string& out) {
  for (const FlagFacts& flag : command.flags) {
    if (flag.value.empty()) continue;
    std::vector<std::string> patterns;
    for (const std::string& name : flag.names) {
      patterns.push_back(fmt::format("\"{} {}\"", below_program(command), name));
    }
    std::string action = "return";
    if (!flag.choices.empty()) {
      action = fmt::format("words='{}'", fmt::join(flag.choices, " "));
    } else if (is_path(flag)) {
      action = "files=1";
    }
    out += fmt::format("    {}) value=1; {} ;;\n", fmt::join(patterns, "|"), action);
  }
  for (const CommandFacts& each : command.commands) add_bash_values(each, out);
}

// The cases of `case "$command"`: commands, arguments and flags.
void add_bash_words(const CommandFacts& command, std::string& out) {
  std::vector<std::string> commands;
  for (const CommandFacts& each : command.commands) commands.push_back(last_word(each.name));
  std::vector<std::string> flags;
  for (const FlagFacts& flag : command.flags) {
    for (std::string& name : all_names(flag)) flags.push_back(std::move(name));
  }
  std::vector<std::string> choices = commands;
  for (const FlagFacts& argument : command.arguments) {
    choices.insert(choices.end(), argument.choices.begin(), argument.choices.end());
  }
  out += fmt::format("    \"{}\") flags='{}'; words='{}'{} ;;\n", below_program(command),
                     fmt::join(flags, " "), fmt::join(choices, " "),
                     takes_path(command) ? "; files=1" : "");
  for (const CommandFacts& each : command.commands) add_bash_words(each, out);
}

// The commands that have commands, as an alternative of patterns: "bench".
std::vector<std::string> command_groups(const CommandFacts& root) {
  std::vector<std::string> groups;
  for (const CommandFacts& each : root.commands) {
    if (!each.commands.empty()) groups.push_back(last_word(each.name));
  }
  return groups;
}

// A text within the brackets of one of zsh's specifications, which stands in single quotes.
std::string zsh_text(const std::string& text) {
  std::string plain = replaced(text, "\\", "\\\\");
  for (const char* mark : {"[", "]", ":"}) plain = replaced(plain, mark, std::string("\\") + mark);
  return replaced(plain, "'", "'\\''");
}

std::string zsh_value(const FlagFacts& flag) {
  if (!flag.choices.empty()) {
    return fmt::format(":{}:({})", zsh_text(flag.value), fmt::join(flag.choices, " "));
  }
  const char* action = flag.value == "DIR" ? "_files -/" : is_path(flag) ? "_files" : " ";
  return fmt::format(":{}:{}", zsh_text(flag.value), action);
}

void add_zsh_function(const CommandFacts& command, std::string& out) {
  const std::string name = replaced(replaced(command.name, " ", "_"), "-", "_");
  std::vector<std::string> lines;
  for (const FlagFacts& flag : command.flags) {
    for (const std::string& each : all_names(flag)) {
      const bool valued = !flag.value.empty();
      // "=": the value may stand behind an equals sign, too.
      lines.push_back(fmt::format("'{}{}{}[{}]{}'", flag.several ? "*" : "", each,
                                  valued && each.starts_with("--") ? "=" : "",
                                  zsh_text(flag.description), valued ? zsh_value(flag) : ""));
    }
  }
  for (const FlagFacts& argument : command.arguments) {
    lines.push_back("'" + zsh_value(argument) + "'");
  }
  if (command.commands.empty()) {
    out += fmt::format("_{}() {{\n  _arguments -s \\\n    {}\n}}\n", name,
                       fmt::join(lines, " \\\n    "));
    return;
  }
  std::vector<std::string> commands;
  std::vector<std::string> calls;
  for (const CommandFacts& each : command.commands) {
    const std::string word = last_word(each.name);
    commands.push_back(single_quoted(word + ":" + replaced(each.description, ":", "\\:")));
    calls.push_back(fmt::format("    {}) _{}_{} ;;", word, name, replaced(word, "-", "_")));
    add_zsh_function(each, out);
  }
  // Words and number of a command below it are those without its own name.
  out += fmt::format(
      "_{0}() {{\n"
      "  local -a commands=(\n    {1})\n"
      "  if (( CURRENT == 2 )); then\n"
      "    _describe command commands\n"
      "    _arguments -s \\\n    {2}\n"
      "    return\n"
      "  fi\n"
      "  shift words\n"
      "  (( CURRENT-- ))\n"
      "  case $words[1] in\n{3}\n  esac\n}}\n",
      name, fmt::join(commands, "\n    "), fmt::join(lines, " \\\n    "), fmt::join(calls, "\n"));
}

// When a line of fish applies to `command`: its words are there, and no further command's.
std::string fish_condition(const CommandFacts& command) {
  std::vector<std::string> below;
  for (const CommandFacts& each : command.commands) below.push_back(last_word(each.name));
  std::string words = below_program(command);
  if (words.empty()) return "test (count (commandline -opc)) -eq 1";
  const auto length = std::ranges::count(words, ' ') + 2;
  std::string condition = fmt::format(
      "string match -q -- 'quire {}' (string join ' ' (commandline -opc)[1..{}])", words, length);
  if (!below.empty()) {
    condition += fmt::format("; and not __fish_seen_subcommand_from {}", fmt::join(below, " "));
  }
  return condition;
}

void add_fish_lines(const CommandFacts& command, std::string& out) {
  const std::string start =
      fmt::format("complete -c quire -n \"{}\"", replaced(fish_condition(command), "$", "\\$"));
  for (const CommandFacts& each : command.commands) {
    out += fmt::format("{} -f -a {} -d {}\n", start, last_word(each.name),
                       single_quoted(each.description));
  }
  for (const FlagFacts& argument : command.arguments) {
    if (is_path(argument)) out += fmt::format("{} -F\n", start);
    if (!argument.choices.empty()) {
      out += fmt::format("{} -f -a '{}'\n", start, fmt::join(argument.choices, " "));
    }
  }
  for (const FlagFacts& flag : command.flags) {
    std::string names;
    for (const std::string& name : all_names(flag)) {
      names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    }
    std::string value;
    if (!flag.choices.empty()) {
      value = fmt::format(" -x -a '{}'", fmt::join(flag.choices, " "));
    } else if (!flag.value.empty()) {
      value = is_path(flag) ? " -r -F" : " -x";
    }
    out += fmt::format("{}{}{} -d {}\n", start, names, value,
                       single_quoted(replaced(flag.description, "\\", "\\\\")));
  }
  for (const CommandFacts& each : command.commands) add_fish_lines(each, out);
}

Status print_completion(const CommandFacts& root, const std::string& shell) {
  std::string text;
  if (shell == "bash") text = bash_completion(root);
  if (shell == "zsh") text = zsh_completion(root);
  if (shell == "fish") text = fish_completion(root);
  if (shell == "json") text = json::serialize(to_json(root)) + "\n";
  QUIRE_ASSIGN_OR_RETURN(OutputFile output, OutputFile::create("-"));
  return output.write(text);
}

}  // namespace

std::string bash_completion(const CommandFacts& root) {
  std::string values;
  add_bash_values(root, values);
  std::string words;
  add_bash_words(root, words);
  return fmt::format(
      R"(# Completion of quire in bash, made by `quire completion bash`.
_quire() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} flag=${{COMP_WORDS[COMP_CWORD-1]}}
  local command= flags= words= files= value=
  # "--flag=value" comes as three words.
  if [[ $current == = ]]; then
    current=
  elif [[ $flag == = ]]; then
    flag=${{COMP_WORDS[COMP_CWORD-2]}}
  fi
  if (( COMP_CWORD > 1 )); then command=${{COMP_WORDS[1]}}; fi
  case $command in
    {}) if (( COMP_CWORD > 2 )); then command+=" ${{COMP_WORDS[2]}}"; fi ;;
  esac
  COMPREPLY=()
  case "$command $flag" in
{}  esac
  if [[ -z $value ]]; then
    case $command in
{}    esac
    if [[ $current == -* ]]; then words=$flags files=; fi
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  if [[ -n $files ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t -O ${{#COMPREPLY[@]}} COMPREPLY < <(compgen -f -- "$current")
  fi
}}
complete -F _quire quire
)",
      fmt::join(command_groups(root), "|"), values, words);
}

std::string zsh_completion(const CommandFacts& root) {
  std::string functions;
  add_zsh_function(root, functions);
  return fmt::format(
      "#compdef quire\n# Completion of quire in zsh, made by `quire completion zsh`.\n{}\n"
      "if [[ $funcstack[1] == _quire ]]; then _quire \"$@\"; else compdef _quire quire; fi\n",
      functions);
}

std::string fish_completion(const CommandFacts& root) {
  std::string lines;
  add_fish_lines(root, lines);
  return "# Completion of quire in fish, made by `quire completion fish`.\ncomplete -c quire -f\n" +
         lines;
}

Command add_completion(CLI::App& app) {
  set_help(
      app,
      {{{"source <(quire completion bash)", "complete quire in this bash"},
        {"quire completion fish >~/.config/fish/completions/quire.fish", "in fish, from now on"}}});
  auto shell = std::make_shared<std::string>();
  app.add_option("SHELL", *shell,
                 "Print the script for this shell; json: the data from which the scripts are made")
      ->type_name("SHELL")
      ->check(one_of({"bash", "zsh", "fish", "json"}))
      ->required();
  const CLI::App* root = app.get_parent();
  return [shell, root] { return print_completion(command_facts(*root), *shell); };
}

}  // namespace quire
