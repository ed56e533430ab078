// Dialects: how models write what is no plain text of an answer, namely calls of tools and
// reasoning. A dialect is data; text/dialects/output_parser.h reads all of them.
//
// Names are vLLM's, so that what its users type works. The forms are those of the vendors' chat
// templates (of many there are copies in Hugging Face's repositories) and model cards.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/status.h"

namespace quire {

// What a call consists of.
enum class CallForm : std::uint8_t {
  kObject,  // {"name": "f", "arguments": {...}}
  kNamed,   // the name between marks, then the arguments in a form of their own
};

// How a named call's arguments are written.
enum class ArgumentForm : std::uint8_t {
  kJson,    // a JSON object
  kTags,    // <parameter=key>value</parameter>, values as bare text
  kPython,  // (key=literal, ...)
  kBraces,  // {key:literal,...} with strings between marks
};

enum class ListForm : std::uint8_t { kNever, kOptional, kRequired };

enum class IdRule : std::uint8_t {
  kRandom,     // call_ and 24 letters and digits
  kNine,       // nine letters and digits, which Mistral's templates ask for
  kAsWritten,  // functions.NAME:NUMBER, as the model writes it
};

// A section is `begin`, calls, `end`. Between its parts white space may stand anywhere but in names
// and values. Marks begin with no white space.
struct ToolDialect {
  std::string_view name;
  std::array<std::string_view, 2> aliases = {};

  std::array<std::string_view, 3> begin = {};  // any of them; one may be `name_begin` itself
  bool bare = false;                 // a section may also begin with the answer, without a mark
  std::string_view end = {};         // may be missing in a text; empty: there is none
  ListForm list = ListForm::kNever;  // calls between [ and ], with commas
  std::string_view separator = {};   // between calls that are in no list, may be left out

  std::string_view call_begin = {};
  std::string_view call_end = {};
  CallForm call = CallForm::kObject;
  CallForm listed = CallForm::kObject;  // of calls in a list

  // Of kObject.
  std::string_view name_key = "name";
  std::array<std::string_view, 2> arguments_keys = {"arguments", "parameters"};

  // Of kNamed.
  std::string_view name_begin = {};
  std::string_view name_end = {};  // may be missing where the arguments begin with a mark
  std::string_view id_mark = {};   // an id may follow it, between the name and `name_end`
  ArgumentForm arguments = ArgumentForm::kJson;
  std::string_view arguments_end = {};
  // Of kTags.
  std::string_view key_begin = {};
  std::string_view key_end = {};
  std::string_view value_begin = {};
  std::string_view value_end = {};
  bool value_lines = false;  // a line feed after value_begin (or key_end) and before value_end
  // Of kBraces: before and after a string.
  std::string_view string_mark = {};

  IdRule ids = IdRule::kRandom;
  bool channels = false;  // harmony (text/dialects/channel_reader.h): nothing of the above counts
};

struct ReasoningDialect {
  std::string_view name;
  std::array<std::string_view, 2> aliases = {};
  std::string_view begin = {};
  std::string_view end = {};
  // An answer begins with reasoning without its mark, unless its prompt has ended it.
  bool from_start = false;
  // Marks around the rest of the answer, which are no part of it.
  std::array<std::string_view, 4> dropped = {};
  bool channels = false;
  // Of channels: the message of `final` goes on to the end of the text, whatever it contains.
  bool final_is_rest = false;
};

std::span<const ToolDialect> tool_dialects();
std::span<const ReasoningDialect> reasoning_dialects();

// By name or alias; null for "none". kInvalidArgument with the names of all.
Result<const ToolDialect*> find_tool_dialect(std::string_view name);
Result<const ReasoningDialect*> find_reasoning_dialect(std::string_view name);

// Both together; either may be null.
struct OutputDialect {
  const ToolDialect* tools = nullptr;
  const ReasoningDialect* reasoning = nullptr;

  bool operator==(const OutputDialect&) const = default;
};

// What a person has chosen; unset: as the chat template shows; null: none.
struct DialectChoice {
  std::optional<const ToolDialect*> tools = {};
  std::optional<const ReasoningDialect*> reasoning = {};
};

// What a chat template's source says of the answers of its model. Pure; nulls where it says
// nothing.
OutputDialect choose_dialect(std::string_view chat_template);

// Whether `text` stands within one of a dialect's marks. Such tokens have to be shown to the
// parser, also where special tokens are hidden.
bool is_part_of_mark(const OutputDialect& dialect, std::string_view text);

}  // namespace quire
