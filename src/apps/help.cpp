#include "apps/help.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/command_facts.h"
#include "apps/terminal.h"

namespace quire {
namespace {

// Characters, each of which counts as one column.
std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

struct HelpSection {
  std::string title;
  std::vector<HelpRow> rows;
};

// 67108864 bytes are "64M", which the flag accepts as well.
std::string shown_default(const FlagFacts& flag) {
  std::uint64_t value = 0;
  const std::string& text = flag.standard;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool bytes = flag.names.back().ends_with("-bytes");
  if (!bytes || error != std::errc() || end != text.data() + text.size()) return text;
  constexpr std::pair<std::uint64_t, char> kUnits[] = {
      {1ULL << 30, 'G'}, {1ULL << 20, 'M'}, {1ULL << 10, 'K'}};
  for (const auto& [unit, letter] : kUnits) {
    if (value >= unit && value % unit == 0) return fmt::format("{}{}", value / unit, letter);
  }
  return text;
}

HelpRow row_of(const FlagFacts& flag) {
  std::vector<std::string> names = flag.names;
  names.insert(names.end(), flag.negated.begin(), flag.negated.end());
  HelpRow row = {.name = fmt::format("{}", fmt::join(names, ", ")), .text = flag.description};
  if (!flag.choices.empty()) {
    row.name += fmt::format(" {}", fmt::join(flag.choices, "|"));
  } else if (!flag.value.empty() && flag.names != std::vector{flag.value}) {
    row.name += " " + flag.value;
  }
  std::vector<std::string> notes;
  if (flag.required) notes.emplace_back("required");
  if (!flag.range.empty()) notes.push_back(flag.range);
  if (!flag.standard.empty()) notes.push_back("default: " + shown_default(flag));
  if (!flag.variable.empty()) notes.push_back("also $" + flag.variable);
  if (!notes.empty()) row.text += fmt::format(" ({})", fmt::join(notes, "; "));
  return row;
}

std::string usage(const CommandFacts& command) {
  std::string line = "Usage: " + command.name;
  for (const FlagFacts& argument : command.arguments) {
    const std::string& name = argument.names[0];
    line += argument.required ? " " + name : " [" + name + "]";
  }
  if (!command.commands.empty()) line += " COMMAND";
  return line + " [OPTION...]";
}

std::vector<HelpSection> sections_of(const CommandFacts& command) {
  std::vector<HelpSection> sections;
  if (!command.arguments.empty()) {
    HelpSection& section = sections.emplace_back();
    for (const FlagFacts& argument : command.arguments) section.rows.push_back(row_of(argument));
  }
  if (!command.commands.empty()) {
    HelpSection& section = sections.emplace_back();
    section.title = "Commands";
    for (const CommandFacts& each : command.commands) {
      section.rows.push_back({each.name.substr(each.name.rfind(' ') + 1), each.description});
    }
  }
  for (const FlagFacts& flag : command.flags) {
    auto section = std::ranges::find(sections, flag.group, &HelpSection::title);
    if (section == sections.end()) {
      sections.push_back({flag.group, {}});
      section = std::prev(sections.end());
    }
    section->rows.push_back(row_of(flag));
  }
  return sections;
}

// One line of a text, as wrap_words() says.
void add_wrapped(std::vector<std::string>& lines, std::string_view text, std::size_t width) {
  if (columns(text) <= width) {
    lines.emplace_back(text);
    return;
  }
  std::string line;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    if (!line.empty() && columns(line) + 1 + columns(word) > width) {
      lines.push_back(std::exchange(line, std::string(word)));
    } else {
      line += fmt::format("{}{}", line.empty() ? "" : " ", word);
    }
    begin = end + 1;
  }
  lines.push_back(std::move(line));
}

// Rows in two columns, the second from `column` on.
void add_rows(std::string& out, const std::vector<HelpRow>& rows, std::size_t column,
              std::size_t width) {
  for (const HelpRow& row : rows) {
    out += "  " + row.name;
    std::size_t at = 2 + columns(row.name);
    for (const std::string& line : wrap_words(row.text, width - column)) {
      if (at + 2 > column) {  // no room beside the name, or a further line
        out += '\n';
        at = 0;
      }
      out += std::string(column - at, ' ') + line;
      at = column;
    }
    out += '\n';
  }
}

// Where the second column begins: behind the longest name that leaves it at `most`.
std::size_t column_of(const std::vector<HelpSection>& sections, std::size_t width,
                      std::size_t most) {
  std::size_t column = std::min<std::size_t>(8, width / 4);
  for (const HelpSection& section : sections) {
    for (const HelpRow& row : section.rows) {
      const std::size_t end = columns(row.name) + 4;
      if (end <= most) column = std::max(column, end);
    }
  }
  return column;
}

class HelpFormatter final : public CLI::FormatterBase {
 public:
  explicit HelpFormatter(std::array<CommandExample, 2> examples) : examples_(std::move(examples)) {}

  std::string make_help(const CLI::App* app, std::string /*name*/,
                        CLI::AppFormatMode /*mode*/) const override {
    const auto width = static_cast<std::size_t>(terminal_width());
    const CommandFacts command = command_facts(*app);
    const std::vector<HelpSection> sections = sections_of(command);
    std::vector<HelpRow> examples;
    for (const CommandExample& each : examples_) examples.push_back({each.line, each.meaning});

    std::string out = "Examples:\n";
    add_rows(out, examples, column_of({{"", examples}}, width, width * 2 / 3), width);
    add_text(out, "\n" + command.description + ".\n" + usage(command), width);
    const std::size_t column = column_of(sections, width, width * 2 / 5);
    for (const HelpSection& section : sections) {
      out += '\n';
      if (!section.title.empty()) out += section.title + ":\n";
      add_rows(out, section.rows, column, width);
    }
    if (!app->get_footer().empty()) add_text(out, "\n" + app->get_footer(), width);
    return out;
  }

 private:
  static void add_text(std::string& out, const std::string& text, std::size_t width) {
    for (const std::string& line : wrap_words(text, width)) out += line + '\n';
  }

  std::array<CommandExample, 2> examples_;
};

}  // namespace

void set_help(CLI::App& app, std::array<CommandExample, 2> examples) {
  app.formatter(std::make_shared<HelpFormatter>(std::move(examples)));
}

std::string help_rows(const std::vector<HelpRow>& rows, std::size_t width) {
  std::string out;
  add_rows(out, rows, column_of({{"", rows}}, width, width * 2 / 5), width);
  return out;
}

std::vector<std::string> wrap_words(const std::string& text, std::size_t width) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    add_wrapped(lines, std::string_view(text).substr(begin, end - begin), width);
    begin = end + 1;
  }
  return lines;
}

}  // namespace quire
