// From shapes to a grammar. Internal to src/text.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/grammar/grammar.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/json_schema_counted.h"
#include "text/grammar/json_schema_space.h"

namespace quire {

class SchemaEmitter;

// How values are written, where not as JSON has them.
struct ValueSpelling {
  enum class Strings : std::uint8_t {
    kJson,
    kPython,  // True, False and None besides
    kMarked   // as they are, between marks; names of members bare where they are words
  };
  Strings strings = Strings::kJson;
  // No string's spelling contains this text; empty: any may.
  std::string outside = {};
  // Of kMarked.
  ExprId mark = 0;
};

// The outermost object, where it is written in another form than those within it.
class OuterObject {
 public:
  virtual ~OuterObject() = default;
  // What stands before and behind its members, and between them.
  virtual ExprId begin() = 0;
  virtual ExprId end() = 0;
  virtual ExprId comma() = 0;
  virtual Result<ExprId> member(std::string_view name, FormulaId value) = 0;
  // One of several names.
  virtual Result<ExprId> member(const StringSet& names, FormulaId value) = 0;
};

class SchemaEmitter {
 public:
  // States that one array or object may need for what it remembers.
  static constexpr std::size_t kMaxMemory = 3000;

  // Borrows both.
  SchemaEmitter(SchemaSpace& space, GrammarBuilder& builder, ValueSpelling spelling = {})
      : space_(&space), builder_(&builder), spelling_(std::move(spelling)) {}

  // The grammar of the values of `formula`.
  Result<Grammar> emit(FormulaId formula);
  // Of those that are objects, written as `outer` says; null: as all others.
  Result<Grammar> emit_objects(FormulaId formula, OuterObject* outer);

  SchemaSpace& space() { return *space_; }
  GrammarBuilder& builder() { return *builder_; }

  // A value of `formula`; its rule is made later. Nullopt where there is none.
  Result<std::optional<ExprId>> value(FormulaId formula);
  ExprId white_space() const { return white_space_; }
  // A string with one of these texts.
  Result<ExprId> string(const StringSet& texts);
  // The same without anything around it, without `end` within it.
  Result<ExprId> raw_text(const StringSet& texts, std::string_view end);
  // A member's name of a set that is no list, and one name.
  Result<ExprId> member(const StringSet& names, FormulaId value);
  Result<ExprId> member(std::string_view name, FormulaId value);
  // A comma and the white space around it.
  ExprId comma() const { return outer_ != nullptr ? outer_->comma() : comma_; }
  ExprId object_begin() const { return outer_ ? outer_->begin() : builder_->literal("{"); }
  ExprId object_end() const { return outer_ ? outer_->end() : builder_->literal("}"); }
  // Takes `steps` from what members in any order may take (JsonSchemaOptions::kMaxFreeSteps); false
  // where that is not left.
  bool take_free_steps(std::size_t steps) {
    if (steps > free_steps_) return false;
    free_steps_ -= steps;
    return true;
  }
  // `part`, which is not empty, so many times; large counts become rules within rules.
  ExprId repeat(ExprId part, std::int64_t min, std::optional<std::int64_t> max);

 private:
  Status prepare();
  Status prepare_strings();
  Result<Grammar> finish(ExprId root);
  Status define(FormulaId formula, RuleId rule);
  Result<ExprId> json_string(const StringSet& texts);
  Result<ExprId> counted_string(const StringSet& texts);
  Result<ExprId> marked_string(const StringSet& texts);
  ExprId name(std::string_view name);
  ExprId quoted(std::string_view text);
  ExprId or_single(ExprId string, std::int64_t min, std::optional<std::int64_t> max);
  Result<ExprId> shape(const Shape& shape);
  Result<ExprId> number(const NumberSet& numbers);
  // Between the quotes: texts of an automaton, or all but a few.
  Result<ExprId> regular_texts(const StringSet& texts);
  Result<ExprId> listed_texts(const StringSet& texts);

  SchemaSpace* space_;
  GrammarBuilder* builder_;
  ValueSpelling spelling_;
  OuterObject* outer_ = nullptr;  // while the outermost object is made
  std::size_t free_steps_ = JsonSchemaOptions::kMaxFreeSteps;
  ExprId white_space_ = 0;
  ExprId comma_ = 0;
  ExprId colon_ = 0;
  ExprId character_ = 0;
  ExprId counted_character_ = 0;  // of strings whose length matters
  ExprId single_character_ = 0;   // of Python's strings in single quotes
  std::optional<ExprId> any_string_;
  std::vector<std::pair<StringSet, ExprId>> spelled_;  // sets of strings that were made already
  std::vector<std::pair<NumberSet, ExprId>> numbers_;  // and of numbers
  CharacterRules characters_;
  std::map<std::pair<std::string, FormulaId>, ExprId> members_;
  std::unordered_map<ExprId, ExprId> blocks_;  // what is repeated, in blocks
  std::unordered_map<FormulaId, RuleId> rules_;
  std::vector<std::pair<FormulaId, RuleId>> open_;
};

// json_schema_emit_arrays.cpp, json_schema_emit_objects.cpp: brackets included.
Result<ExprId> emit_array(SchemaEmitter& emitter, const ArrayCase& array);
Result<ExprId> emit_object(SchemaEmitter& emitter, const ObjectCase& object);

// Something that has to be remembered while items or members come: states, of which the first is
// that before any of them.
struct MemoryStep {
  ExprId expr = 0;     // an item or a member
  std::size_t to = 0;  // a state
};
struct MemoryState {
  bool can_end = false;
  std::vector<MemoryStep> steps;
};
// All ways from the first state to one that can end, with commas between the steps.
ExprId emit_memory(SchemaEmitter& emitter, const std::vector<MemoryState>& states);

}  // namespace quire
