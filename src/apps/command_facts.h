// The command line as data: what --help, the completions of shells and other programs are made of,
// read off the parser itself.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/json.h"

namespace quire {

struct FlagFacts {
  std::vector<std::string> names;    // "-h", "--help"; of an argument its name
  std::vector<std::string> negated;  // "--no-log-requests"
  std::string value;                 // its argument: "FILE"; empty: none
  std::vector<std::string> choices;  // the names it accepts; empty: other values
  std::string range;                 // "1 to 1024", or empty
  std::string standard;              // its default, as it would be written
  std::string variable;              // of the environment, that says the same
  std::string description;
  std::string group;
  bool several = false;  // may be given several times
  bool required = false;
};

struct CommandFacts {
  std::string name;  // in full: "quire bench core"
  std::string description;
  std::vector<FlagFacts> arguments;  // those that stand without a flag, in order
  std::vector<FlagFacts> flags;      // without hidden ones; those that few people need come last
  std::vector<CommandFacts> commands;
};

// Of `app` and all commands below it.
CommandFacts command_facts(const CLI::App& app);

// The same for other programs: objects with the names of the fields above.
json::object to_json(const CommandFacts& command);

}  // namespace quire
