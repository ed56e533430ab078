#include "apps/vllm_flags.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/json.h"
#include "base/printable.h"

namespace quire {
namespace {

std::optional<double> as_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Whether two spellings mean the same: case, spaces in JSON and the form of a number do not count.
bool same_value(std::string_view a, std::string_view b) {
  const auto x = as_number(a);
  const auto y = as_number(b);
  if (x && y) return *x == *y;
  const auto plain = [](std::string_view text) {
    std::string result;
    for (const char c : text) {
      if (c == ' ') continue;
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    return result;
  };
  return plain(a) == plain(b);
}

bool asks_for_nothing(const VllmFlag& flag, std::string_view value) {
  if (value.empty() || same_value(value, "none") || same_value(value, "null")) return true;
  std::string_view rest = flag.off;
  while (!rest.empty()) {
    const std::size_t bar = std::min(rest.find('|'), rest.size());
    if (same_value(value, rest.substr(0, bar))) return true;
    rest.remove_prefix(std::min(bar + 1, rest.size()));
  }
  return false;
}

// Flags of vLLM that Quire has under a name of its own.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kOtherNames = {{
    {"-q", "--quantization"},
    {"-sc", "--speculative-config"},
    {"--enable-log-requests", "--log-requests"},
    {"--no-enable-log-requests", "--no-log-requests"},
    {"--disable-log-requests", "--no-log-requests"},
    {"--pooler-config.pooling-type", "--pooling-type"},
    {"--override-pooler-config.pooling-type", "--pooling-type"},
}};

std::string negated(std::string_view name) { return "--no-" + std::string(name.substr(2)); }

const VllmFlag* find_flag(std::string_view name) {
  const auto flags = vllm_flags();
  const auto found = std::ranges::find(flags, name, &VllmFlag::name);
  return found == flags.end() ? nullptr : &*found;
}

Status refusal(const VllmFlag& flag, std::string_view value) {
  const bool valued = flag.takes != VllmFlag::Takes::kNothing;
  const std::string shown = valued ? " " + printable(value, 40) : "";
  std::string remedy = "leave the flag out";
  if (valued && !flag.off.empty()) {
    remedy += fmt::format(" or give {}", flag.off.substr(0, flag.off.find('|')));
  }
  return Status::unimplemented(
      fmt::format("{}{}: Quire does not have {}", flag.name, shown, flag.reason), remedy);
}

void add_flag(CLI::App& app, const VllmFlag& flag, VllmFlags& given) {
  const std::string name(flag.name);
  std::string names = name;
  // CLI11 knows short names of one letter; normalize_vllm_arguments() writes the others out.
  if (flag.short_name.size() == 2) names = std::string(flag.short_name) + "," + names;
  CLI::Option* option = nullptr;
  switch (flag.takes) {
    case VllmFlag::Takes::kNothing:
      option =
          app.add_flag_function(names + ",!" + negated(name), [&given, name](std::int64_t count) {
            given.values[name] = {count > 0 ? "true" : "false"};
          });
      break;
    case VllmFlag::Takes::kOne:
      option = app.add_option_function<std::string>(
          names, [&given, name](const std::string& value) { given.values[name] = {value}; });
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
      break;
    case VllmFlag::Takes::kMany:
      option = app.add_option_function<std::vector<std::string>>(
          names,
          [&given, name](const std::vector<std::string>& values) { given.values[name] = values; });
      break;
  }
  option->group("");  // not in --help
}

void print_row(const VllmFlag& flag, std::string_view said) {
  const std::string_view separator = flag.short_name.empty() ? "" : ", ";
  fmt::print("  {:<50}  {}\n", fmt::format("{}{}{}", flag.name, separator, flag.short_name), said);
}

void print_section(std::string_view title, VllmFlag::Answer answer) {
  fmt::print("\n{}\n", title);
  for (const VllmFlag& flag : vllm_flags()) {
    if (flag.answer == answer && flag.instead.empty()) print_row(flag, flag.reason);
  }
}

void print_help() {
  fmt::print("vLLM's flags that quire serve --help does not list.\n");
  print_section("Accepted, without effect:", VllmFlag::Answer::kAccepted);
  print_section("Refused, unless the value asks for nothing, because Quire does not have:",
                VllmFlag::Answer::kRefused);
  fmt::print("\nTaken for one of Quire's own, unless the value asks for nothing:\n");
  for (const VllmFlag& flag : vllm_flags()) {
    if (!flag.instead.empty()) print_row(flag, flag.instead);
  }
}

// A flag's name as this program writes it.
std::string normal_name(std::string name) {
  if (name.starts_with("--")) std::ranges::replace(name, '_', '-');
  const std::string head = name.substr(0, name.find('.'));
  const auto flag = std::ranges::find_if(vllm_flags(), [&head](const VllmFlag& known) {
    return known.name == head || known.short_name == head;
  });
  if (flag != vllm_flags().end()) return std::string(flag->name);
  for (const auto& [vllm_name, own_name] : kOtherNames) {
    if (name == vllm_name) return std::string(own_name);
  }
  return name;
}

// Quire's flag in place of one of the table, where that has no answer to the value.
std::string name_for_value(std::string name, std::string_view value) {
  const VllmFlag* flag = find_flag(name);
  if (flag == nullptr || flag->instead.empty() || asks_for_nothing(*flag, value)) return name;
  return std::string(flag->instead);
}

// The items of a JSON list of strings; none for anything else.
std::vector<std::string> items_of_list(std::string_view text) {
  if (!text.starts_with('[')) return {};
  const auto list = parse_json(text, "list");
  if (!list.ok() || !list->is_array()) return {};
  std::vector<std::string> items;
  for (const json::value& item : list->get_array()) {
    if (!item.is_string()) return {};
    items.emplace_back(item.get_string());
  }
  return items;
}

}  // namespace

void add_vllm_flags(CLI::App& app, std::span<const std::string> arguments, VllmFlags& given) {
  const auto named = [&arguments](std::string_view name) {
    return std::ranges::any_of(arguments, [name](std::string_view argument) {
      return argument.substr(0, argument.find('=')) == name;
    });
  };
  // -O and -O3.
  const auto named_shortly = [&arguments](std::string_view letter) {
    return letter.size() == 2 &&
           std::ranges::any_of(arguments, [letter](std::string_view argument) {
             return argument.starts_with(letter);
           });
  };
  const auto taken = [&app](const std::string& name) {
    return app.get_option_no_throw(name) != nullptr;
  };
  for (const VllmFlag& flag : vllm_flags()) {
    const std::string name(flag.name);
    const std::string negative = negated(name);
    if (!named(name) && !named(negative) && !named_shortly(flag.short_name)) continue;
    if (!taken(name) && !taken(negative)) add_flag(app, flag, given);
  }
  app.add_flag_callback(
      "--help-vllm",
      [] {
        print_help();
        throw CLI::Success();
      },
      "List the flags of vLLM that are accepted without effect, or refused, and why");
}

Status check_vllm_flags(const VllmFlags& given, std::vector<std::string>& notes) {
  for (const auto& [name, values] : given.values) {
    const VllmFlag* flag = find_flag(name);
    if (flag == nullptr) return Status::internal(fmt::format("{} is no flag of vLLM", name));
    const auto asking = std::ranges::find_if(
        values, [flag](const std::string& value) { return !asks_for_nothing(*flag, value); });
    if (asking == values.end()) continue;
    if (flag->answer == VllmFlag::Answer::kRefused) return refusal(*flag, *asking);
    notes.push_back(fmt::format("{} has no effect: {}", name, flag->reason));
  }
  return {};
}

std::vector<std::string> normalize_vllm_arguments(const std::vector<std::string>& arguments) {
  std::vector<std::string> normal;
  std::string own_flag;  // the latest flag, unless it is of the table
  for (auto it = arguments.begin(); it != arguments.end(); ++it) {
    if (*it == "--") {  // what follows are no flags
      normal.insert(normal.end(), it, arguments.end());
      break;
    }
    std::string_view value = *it;
    bool separate = true;
    if (it->size() >= 2 && it->front() == '-') {
      const std::size_t end = std::min(it->find('='), it->size());
      std::string name = normal_name(it->substr(0, end));
      const auto next = std::next(it);
      const std::string_view given = end < it->size()          ? value.substr(end + 1)
                                     : next != arguments.end() ? std::string_view(*next)
                                                               : std::string_view();
      name = name_for_value(std::move(name), given);
      own_flag = name.starts_with("--") && find_flag(name) == nullptr ? name : "";
      normal.push_back(name);
      if (end == it->size()) continue;
      value.remove_prefix(end + 1);
      separate = false;
    }
    const std::vector<std::string> items =
        own_flag.empty() ? std::vector<std::string>() : items_of_list(value);
    if (!items.empty()) {
      normal.push_back(items.front());
      for (std::size_t i = 1; i < items.size(); ++i)
        normal.insert(normal.end(), {own_flag, items[i]});
    } else if (separate) {
      normal.emplace_back(value);
    } else {
      normal.back() += "=" + std::string(value);
    }
  }
  return normal;
}

}  // namespace quire
