// Values of the template language: Python's None, bool, int, float, str, list, tuple, dict and the
// few objects that Jinja adds. Containers are immutable once built (as in Jinja's immutable
// sandbox), so values share them; only namespaces, iterators and loops change. There are no host
// objects: a template reaches nothing beyond what is listed here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "text/jinja/ast.h"
#include "text/jinja/text.h"

namespace quire::jinja {

class Budget;
struct Scope;

enum class Kind {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kRange,
  kView,      // what dict.items(), keys() and values() return
  kIterator,  // what map, select, items and other lazy filters return: can be walked once
  kNamespace,
  kMacro,
  kMethod,    // a method together with its receiver
  kFunction,  // a global function
  kLoop,
  kJoiner,
  kCycler,
};

// Containers nested deeper than this are refused: destroying and printing them recurses.
inline constexpr int kMaxValueDepth = 200;

// What a string, a container or an undefined value weighs besides its content, with its share of
// the allocator's overhead; and an entry of a dict besides key and value.
inline constexpr std::uint64_t kObjectBytes = 192;
inline constexpr std::uint64_t kEntryBytes = 384;

struct Object {
  virtual ~Object() = default;
  int depth = 1;  // of the containers below and including this one
};

struct StringObject;
struct SequenceObject;
struct DictObject;

class Value {
 public:
  Value() = default;  // undefined, without a hint
  static Value undefined(std::string hint);
  static Value none() { return Value(Kind::kNone); }
  static Value boolean(bool value);
  static Value integer(Int value);
  static Value number(double value);
  static Value string(Text text, bool is_markup = false);
  static Value string(std::string bytes, bool is_template);
  static Value object(Kind kind, std::shared_ptr<Object> object);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_dict() const { return kind_ == Kind::kDict; }
  bool is_sequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }
  bool is_integral() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool is_numeric() const { return is_integral() || kind_ == Kind::kFloat; }

  bool as_bool() const { return integer_ != 0; }
  Int as_int() const { return integer_; }  // also of a bool
  double as_double() const {
    return kind_ == Kind::kFloat ? number_ : static_cast<double>(integer_);
  }
  const Text& text() const;  // of a string
  std::string_view view() const { return text().view(); }
  bool is_markup() const;                   // a string that the safe or escape filter made
  const std::vector<Value>& items() const;  // of a list, tuple or view
  const DictObject& dict() const;
  std::string_view hint() const;  // of an undefined: why it is
  template <typename T>
  T& as() const {  // the caller has checked the kind
    return static_cast<T&>(*object_);
  }
  const Object* identity() const { return object_.get(); }
  int depth() const { return object_ ? object_->depth : 0; }

 private:
  explicit Value(Kind kind) : kind_(kind) {}

  Int integer_ = 0;
  std::shared_ptr<Object> object_;
  double number_ = 0;
  Kind kind_ = Kind::kUndefined;
};

struct StringObject : Object {
  Text text;
  bool is_markup = false;
};

struct SequenceObject : Object {
  std::vector<Value> items;
  std::string type_name;  // views: "dict_items"; iterators: what they came from
  std::size_t next = 0;   // iterators
  bool is_group = false;  // tuples of groupby: .grouper and .list
};

// Bounds and steps of ranges stay within this, so that arithmetic on them cannot overflow.
inline constexpr Int kMaxRangeBound = static_cast<Int>(1) << 60;

struct RangeObject : Object {
  Int start = 0;
  Int stop = 0;
  Int step = 1;
  Int length() const;
};

// Keeps the order of insertion. Keys are what Python can hash: None, bool, int, float, str, tuples.
struct DictObject : Object {
  std::vector<std::pair<Value, Value>> entries;

  const Value* find(std::string_view name) const;
  // nullptr when absent. The key must be hashable (see hash_key()).
  const Value* find_key(const std::string& hash_key) const;
  // Adds or replaces. `hash_key` is the key's.
  void set(std::string hash_key, Value key, Value value);

 private:
  std::map<std::string, std::size_t, std::less<>> index_;
};

struct NamespaceObject : Object {
  DictObject attributes;
};

struct MethodObject : Object {
  Value receiver;
  std::string name;
};

struct FunctionObject : Object {
  std::string name;
};

struct JoinerObject : Object {
  Value separator;
  bool used = false;
};

struct CyclerObject : Object {
  std::vector<Value> items;
  std::size_t position = 0;
};

struct MacroObject : Object {
  const Stmt* definition = nullptr;  // of the template, which outlives the render
  std::string name;                  // "caller" for a call block's body
  std::shared_ptr<Scope> closure;
};

// Builds a container, computing its depth; refuses one that is nested too deep.
Result<Value> make_sequence(Kind kind, std::vector<Value> items, Budget& budget);
Result<Value> make_iterator(std::string type_name, std::vector<Value> items, Budget& budget);
Result<Value> make_dict(std::vector<std::pair<Value, Value>> entries, Budget& budget);
Status check_value_depth(int depth);

// A string that two keys share if and only if Python counts them as equal; an error for values that
// cannot be keys (lists, dicts).
Result<std::string> hash_key(const Value& key, Budget& budget);

std::string_view kind_name(const Value& value);  // Python's name of the type, for messages

}  // namespace quire::jinja
