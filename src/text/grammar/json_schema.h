// JSON Schema to grammars.
//
// Drafts 4, 6, 7, 2019-09 and 2020-12, by `$schema`; without one 2020-12, with the older keywords
// understood as well. `format` is asserted. Each keyword that says what is valid is kept exactly,
// or the schema is refused by the keyword's name and place; docs/structured_output.md has the
// table. Keywords that no draft knows have no meaning, as the drafts say, nor have formats.
//
// A text of the grammar is JSON whose value is valid. Not every spelling of a valid value is one:
//  - names, constants and strings with a pattern or a format have printable ASCII as it is, and
//  other
//    characters as they are or as \uXXXX; strings of which at most the length matters have any
//    escape;
//  - numbers have the digits that json_schema_sets.h allows, and an exponent where they are not
//    compared with others;
//  - between tokens there is white space as JsonSchemaOptions says;
//  - members come in the order that JsonSchemaOptions says; a name that the schema does not mention
//    may come again, since no grammar remembers it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "text/grammar/grammar.h"
#include "text/grammar/limits.h"

namespace quire {

enum class PropertyOrder : std::uint8_t {
  // As the schema lists them (`x-order` first, where it is given), those it does not name last.
  kDeclared,
  // Any. Up to JsonSchemaOptions::kMaxFreeMembers names each comes once at most; of more names only
  // the required ones are remembered. Beyond kMaxFreeRequired of those they come as `properties` or
  // as `required` has them, and so they do in what is left of a schema whose objects have taken
  // kMaxFreeSteps together.
  kFree,
};

struct JsonSchemaOptions {
  // Line feeds and blanks in one stretch of white space: one line feed (or \r\n), and so many
  // blanks (or tabs) behind it, so that a model cannot go on with them for ever.
  static constexpr std::uint32_t kMaxBlanks = 40;
  static constexpr std::size_t kMaxFreeMembers = 5;
  static constexpr std::size_t kMaxFreeRequired = 8;
  static constexpr std::size_t kMaxFreeSteps = 3'000;
  // A string that has a pattern or a format, and a maxLength, is at most so long that there are no
  // more pairs than this of a state of the pattern's automaton and the number of characters that
  // have led there (but never shorter than minLength); refused where that would be fewer than
  // kMinPatternLength.
  static constexpr std::uint32_t kMaxPatternStates = 50'000;
  static constexpr std::uint32_t kMinPatternLength = 64;
  // Of a schema's text.
  static constexpr std::size_t kMaxSchemaBytes = std::size_t{4} << 20;

  // A regular expression for each stretch of white space (it should match the empty text).
  std::optional<std::string> whitespace_pattern;
  // No white space at all.
  bool disable_any_whitespace = false;
  // Objects with `properties` or `patternProperties` have no others unless their schema says so.
  bool disable_additional_properties = false;
  PropertyOrder property_order = PropertyOrder::kDeclared;
  // False: `format` is a remark, as the specifications have it by default.
  bool assert_format = true;
};

// kInvalidArgument: no JSON Schema, a reference to what is not in it, or nothing is valid.
// kUnimplemented: what cannot be kept, by keyword and place. kResourceExhausted naming a limit of
// the budget or of these headers; kCancelled. Borrows `schema` for the call.
Result<Grammar> json_schema_grammar(const json::value& schema, const JsonSchemaOptions& options,
                                    GrammarBudget& budget);
Result<Grammar> json_schema_grammar(std::string_view text, const JsonSchemaOptions& options,
                                    GrammarBudget& budget);

// Any JSON object.
Result<Grammar> json_object_grammar(const JsonSchemaOptions& options, GrammarBudget& budget);

}  // namespace quire
