// The syntax tree of a chat template. Nodes are plain data, built once by the parser and shared by
// all renders; depth is bounded by the parser, so that recursion over the tree is safe.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace quire::jinja {

__extension__ typedef __int128 Int;  // Python's int, as far as 128 bits go
__extension__ typedef unsigned __int128 UnsignedInt;

struct Object;
struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

// The arguments of a call, filter or test: f(a, key=b, *c, **d).
struct CallArgs {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> keywords;
  ExprPtr spread;          // *c, may be null
  ExprPtr keyword_spread;  // **d, may be null
};

enum class ExprKind {
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kName,
  kNamespaceRef,  // name.attribute as the target of a set
  kList,
  kTuple,
  kDict,       // children: key, value, key, value, ...
  kAttribute,  // children[0].name
  kItem,       // children[0][children[1]]
  kSlice,      // children: start, stop, step; each may be null; only as children[1] of kItem
  kCall,       // children[0](args)
  kFilter,     // children[0] | name(args)
  kTest,       // children[0] is name(args)
  kNot,
  kAnd,
  kOr,
  kNegative,
  kPositive,
  kBinary,       // name is the operator: + - * / // % **
  kConcat,       // children joined as strings
  kCompare,      // children[0] ops[0] children[1] ops[1] ...; "in" and "not in" too
  kConditional,  // children: test, then, else (may be null)
  kBlockText,    // the rendered body of a filter block or block set
};

struct Expr {
  ExprKind kind;
  int line = 0;
  int depth = 1;  // of the tree below
  std::string name;
  std::shared_ptr<Object> literal;  // of a string: its value, which all renders share
  bool boolean = false;
  Int integer = 0;
  double number = 0;
  std::vector<ExprPtr> children;
  std::vector<std::string> ops;
  CallArgs args;
};

struct Stmt;
using Block = std::vector<Stmt>;

// The parameters of a macro or call block; defaults belong to the last ones.
struct Signature {
  std::vector<std::string> parameters;
  std::vector<ExprPtr> defaults;
};

enum class StmtKind {
  kText,         // text as it stands
  kOutput,       // {{ expr }}
  kIf,           // branches
  kFor,          // for target in expr if test: body else: otherwise
  kSet,          // target = expr
  kSetBlock,     // target = filters (expr, may be null) of the rendered body
  kMacro,        // text is the name
  kCallBlock,    // expr is the call; its body becomes caller()
  kFilterBlock,  // expr applied to the rendered body
  kWith,         // bindings, body
  kGeneration,   // marks what the assistant said; renders its body in a scope of its own
  kBreak,
  kContinue,
};

struct Branch {
  ExprPtr test;  // null for else
  Block body;
};

struct Stmt {
  StmtKind kind;
  int line = 0;
  std::string text;
  ExprPtr expr;
  ExprPtr test;
  ExprPtr target;  // kName, kNamespaceRef or a kTuple of targets
  bool recursive = false;
  bool uses_caller = false;  // macros: whether the body names caller, varargs, kwargs
  bool uses_varargs = false;
  bool uses_kwargs = false;
  Signature signature;
  std::vector<Branch> branches;
  std::vector<std::pair<ExprPtr, ExprPtr>> bindings;
  Block body;
  Block otherwise;
};

}  // namespace quire::jinja
