// The values of a flag, said once: checked while the command line is parsed, shown in --help as
// people write it, offered by shells.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

namespace quire {

// Groups of flags that few people need; --help shows them last.
inline constexpr std::string_view kRarelyNeeded = "Rarely needed: ";

// One of `names`, as written.
CLI::Validator one_of(std::vector<std::string> names);

// The names to show of a value that another part checks, because it knows other spellings, too, or
// has more to say: "auto|float32|bfloat16".
CLI::Validator known_names(const std::string& names);

// A whole number from `low` to `high`.
CLI::Validator whole_number(std::int64_t low, std::int64_t high);

// A number from `low` to `high`; `above`: greater than `low`.
CLI::Validator number(double low, double high, bool above = false);

// "1 to 1024", or "at least 16" where `high` is so large that nobody asks for it. Empty where there
// is nothing to say.
std::string range_text(std::int64_t low, std::int64_t high);

// Makes `option`, whose target is a vector, read its values from one word, "1,8,32": what follows
// is not its any more. It may be given several times.
CLI::Option* comma_list(CLI::Option* option);

// One word is the value of each flag of `command`, also of those that may be given several times:
// in "--stop TEXT MODEL" the second word is the model.
void expect_one_word_each(CLI::App& command);

// Adds the model of a command, as its argument MODEL and as --model, and its --revision.
// kInvalidArgument where the two differ. `description` says what may be named.
void add_model(CLI::App& app, std::string& model, const std::string& description,
               const std::string& group);

// Adds `flag`, which puts a revision to the model that an option added before has named.
void add_revision(CLI::App& app, std::string& model, const std::string& flag,
                  const std::string& group);

}  // namespace quire
