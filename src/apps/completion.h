// Completion of the command line in shells, made from the flags themselves.
#pragma once

#include <string>

#include "apps/command_facts.h"

namespace quire {

// What to source in bash, to have as _quire in zsh's fpath, and to have as quire.fish in fish's
// folder of completions. `root` is the program.
std::string bash_completion(const CommandFacts& root);
std::string zsh_completion(const CommandFacts& root);
std::string fish_completion(const CommandFacts& root);

}  // namespace quire
