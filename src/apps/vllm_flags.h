// vLLM's command line for `quire serve`, so that a script which starts vLLM needs only another
// program's name. A flag whose capability Quire has is a flag of Quire and not in here; the others
// are known by name, so that each gets the right answer: one that means nothing here is accepted
// with a note, one whose capability is missing is refused, and its default value is always fine.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/status.h"

namespace quire {

struct VllmFlag {
  enum class Takes { kNothing, kOne, kMany };  // values; a flag without any has a --no- form
  enum class Answer { kAccepted, kRefused };

  std::string_view name;        // "--tensor-parallel-size"
  std::string_view short_name;  // "-tp", or empty
  Takes takes;
  Answer answer;
  // The values that ask for nothing, separated by '|': defaults and ways to say "off". "None" and
  // an empty value always do.
  std::string_view off;
  std::string_view reason;  // accepted: why it has no effect; refused: what Quire does not have
  std::string_view instead = {};  // Quire's flag for any other value, if there is one
};

// Every flag that is not one of Quire's own.
std::span<const VllmFlag> vllm_flags();

// The flags of a command line, with their values as written; "true" or "false" for those that have
// none.
struct VllmFlags {
  std::map<std::string, std::vector<std::string>, std::less<>> values;
};

// Adds those of the flags that `app` does not have itself and `arguments` (as they are normalized
// below) name, hidden from its help, and --help-vllm, which lists all: CLI11 compares each flag
// with every other, which for all of them takes longer than reading a small model's headers. Call
// it after the command's own flags are there; parsing fills `given`.
void add_vllm_flags(CLI::App& app, std::span<const std::string> arguments, VllmFlags& given);

// kUnimplemented for a flag whose capability is missing, naming both; else `notes` gets a line for
// each flag that has no effect.
Status check_vllm_flags(const VllmFlags& given, std::vector<std::string>& notes);

// The arguments of `quire serve` as its parser knows them: --max_model_len becomes --max-model-len,
// -tp 2 --tensor-parallel-size 2, --compilation-config.level 3 --compilation-config 3, and a flag
// that Quire has under another name gets that: --disable-log-requests becomes --no-log-requests,
// and
// --swap-space 16, whose default of vLLM asks for nothing, --kv-offloading-size 16.
// A JSON list of strings after one of Quire's own flags becomes its items, for CLI11 would take it
// apart at commas and leave the quotes: --allowed-origins '["a", "b"]' names the flag for each.
std::vector<std::string> normalize_vllm_arguments(const std::vector<std::string>& arguments);

}  // namespace quire
