#include "apps/flag_values.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/local_model.h"

namespace quire {
namespace {

// From here on a limit is there for the program's sake: no person comes near it.
constexpr std::int64_t kBeyondWishes = 1 << 20;
constexpr double kBeyondNumbers = 1e6;

std::string number_range(double low, double high, bool above) {
  const std::string from = fmt::format("{:.12g}", low);
  const std::string to = fmt::format("{:.12g}", high);
  if (std::abs(high) >= kBeyondNumbers) {
    if (low == 0 && !above) return {};
    return fmt::format("{} {}", above ? "above" : "at least", from);
  }
  return above ? fmt::format("above {}, at most {}", from, to) : fmt::format("{} to {}", from, to);
}

std::string not_in(const std::string& range, const std::string& text) {
  return fmt::format("expected a number{}{}, found {}", range.empty() ? "" : ": ", range, text);
}

}  // namespace

CLI::Validator one_of(std::vector<std::string> names) {
  const std::string shown = fmt::format("{}", fmt::join(names, "|"));
  const auto check = [names = std::move(names)](const std::string& text) -> std::string {
    if (std::ranges::find(names, text) != names.end()) return {};
    return fmt::format("expected {}, found {}", fmt::join(names, ", "), text);
  };
  return {check, shown};
}

CLI::Validator known_names(const std::string& names) {
  return {[](const std::string&) { return std::string(); }, names};
}

CLI::Validator whole_number(std::int64_t low, std::int64_t high) {
  const auto check = [low, high](const std::string& text) -> std::string {
    std::int64_t value = 0;
    if (CLI::detail::lexical_cast(text, value) && value >= low && value <= high) return {};
    return not_in(fmt::format("{} to {}", low, high), text);
  };
  return {check, range_text(low, high)};
}

CLI::Validator number(double low, double high, bool above) {
  const std::string range = number_range(low, high, above);
  const auto check = [low, high, above, range](const std::string& text) -> std::string {
    double value = 0;
    const bool is_number = CLI::detail::lexical_cast(text, value);
    if (is_number && (above ? value > low : value >= low) && value <= high) return {};
    return not_in(range, text);
  };
  return {check, range};
}

std::string range_text(std::int64_t low, std::int64_t high) {
  if (high < kBeyondWishes) return fmt::format("{} to {}", low, high);
  return low <= 1 ? "" : fmt::format("at least {}", low);
}

CLI::Option* comma_list(CLI::Option* option) {
  return option->expected(1)->delimiter(',')->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void expect_one_word_each(CLI::App& command) {
  for (CLI::Option* option : command.get_options({})) {
    if (!option->get_positional()) option->allow_extra_args(false);
  }
}

void add_model(CLI::App& app, std::string& model, const std::string& description,
               const std::string& group) {
  const auto name_it = [&model](const std::string& path) {
    if (!model.empty() && model != path) {
      throw CLI::ValidationError(
          fmt::format("two models are named, {} and {}: give one of them", model, path));
    }
    model = path;
  };
  app.add_option_function<std::string>("MODEL", name_it, description)->type_name("MODEL");
  app.add_option_function<std::string>("--model", name_it, "The same as the argument MODEL")
      ->type_name("MODEL")
      ->group(group);
  add_revision(app, model, "--revision", group);
}

// Options are called back in the order in which they were added, so the model has its name.
void add_revision(CLI::App& app, std::string& model, const std::string& flag,
                  const std::string& group) {
  const auto name_it = [&model, flag](const std::string& revision) {
    auto named = at_revision(model, revision, flag);
    if (!named.ok()) throw CLI::ValidationError(named.status().to_string());
    model = *std::move(named);
  };
  app.add_option_function<std::string>(
         flag, name_it, "Branch, tag or commit, for ORG/NAME; the same as ORG/NAME@REV")
      ->type_name("REV")
      ->group(group);
}

}  // namespace quire
