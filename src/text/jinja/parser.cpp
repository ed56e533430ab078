#include "text/jinja/parser.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <set>
#include <string>
#include <utility>

#include "text/jinja/expression_parser.h"
#include "text/jinja/lexer.h"
#include "text/jinja/token_stream.h"

namespace quire::jinja {
namespace {

// Statements that Jinja has and chat templates under Hugging Face's settings cannot use or do not.
constexpr std::array<std::string_view, 12> kUnsupported = {
    "block", "extends", "include", "import", "from",      "autoescape",
    "do",    "print",   "trans",   "debug",  "pluralize", "endblock"};

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : stream_(std::move(tokens)), expressions_(stream_) {}

  Result<Block> run() {
    QUIRE_ASSIGN_OR_RETURN(Block body, parse_block({}));
    return body;
  }

 private:
  using Ends = std::initializer_list<std::string_view>;

  // Statements up to (and not over) the name of one of `ends`; to the template's end without any.
  Result<Block> parse_block(Ends ends) {
    ++depth_;
    QUIRE_RETURN_IF_ERROR(expressions_.check_depth(depth_));
    Block body;
    while (!stream_.is(TokenType::kEnd)) {
      if (stream_.is(TokenType::kData)) {
        Stmt stmt{};
        stmt.kind = StmtKind::kText;
        stmt.line = stream_.line();
        stmt.text = stream_.take().text;
        body.push_back(std::move(stmt));
      } else if (stream_.is(TokenType::kVariableBegin)) {
        Stmt stmt = make(StmtKind::kOutput);
        QUIRE_ASSIGN_OR_RETURN(stmt.expr, expressions_.tuple());
        QUIRE_RETURN_IF_ERROR(stream_.expect(TokenType::kVariableEnd, "'}}'"));
        body.push_back(std::move(stmt));
      } else {
        stream_.take();
        if (std::any_of(ends.begin(), ends.end(),
                        [&](std::string_view end) { return stream_.is_name(end); })) {
          --depth_;
          return body;
        }
        QUIRE_ASSIGN_OR_RETURN(Stmt stmt, parse_statement());
        QUIRE_RETURN_IF_ERROR(stream_.expect(TokenType::kBlockEnd, "'%}'"));
        body.push_back(std::move(stmt));
      }
    }
    if (ends.size() != 0) {
      return syntax_error(stream_.line(), "the template ends where '" +
                                              std::string(*(ends.end() - 1)) + "' was due");
    }
    --depth_;
    return body;
  }

  // A statement's body: after its head, up to one of `ends`, which stays the current token.
  Result<Block> parse_body(Ends ends) {
    stream_.skip_op(":");
    QUIRE_RETURN_IF_ERROR(stream_.expect(TokenType::kBlockEnd, "'%}'"));
    return parse_block(ends);
  }
  // The same with one possible end, which is read, too.
  Result<Block> parse_body_to(std::string_view end) {
    QUIRE_ASSIGN_OR_RETURN(Block body, parse_body({end}));
    stream_.take();
    return body;
  }

  Stmt make(StmtKind kind) {
    Stmt stmt{};
    stmt.kind = kind;
    stmt.line = stream_.take().line;
    return stmt;
  }

  Result<Stmt> parse_statement() {
    if (!stream_.is(TokenType::kName)) return stream_.unexpected("a statement's name");
    const std::string name = stream_.current().text;
    if (name == "if") return parse_if();
    if (name == "for") return parse_for();
    if (name == "set") return parse_set();
    if (name == "macro") return parse_macro();
    if (name == "call") return parse_call_block();
    if (name == "filter") return parse_filter_block();
    if (name == "with") return parse_with();
    if (name == "generation") return parse_generation();
    if (name == "break" || name == "continue") {
      if (loop_depth_ == 0) return syntax_error(stream_.line(), "'" + name + "' outside a loop");
      return make(name == "break" ? StmtKind::kBreak : StmtKind::kContinue);
    }
    if (std::find(kUnsupported.begin(), kUnsupported.end(), name) != kUnsupported.end()) {
      return Status::unimplemented("line " + std::to_string(stream_.line()) + ": the statement '" +
                                   name + "' is not supported in chat templates");
    }
    return syntax_error(stream_.line(), "unknown statement '" + name + "'");
  }

  Result<Stmt> parse_if() {
    Stmt stmt = make(StmtKind::kIf);
    while (true) {
      Branch branch;
      QUIRE_ASSIGN_OR_RETURN(branch.test, expressions_.tuple(false));
      QUIRE_ASSIGN_OR_RETURN(branch.body, parse_body({"elif", "else", "endif"}));
      stmt.branches.push_back(std::move(branch));
      const std::string end = stream_.take().text;
      if (end == "elif") continue;
      if (end == "else") {
        Branch otherwise;
        QUIRE_ASSIGN_OR_RETURN(otherwise.body, parse_body_to("endif"));
        stmt.branches.push_back(std::move(otherwise));
      }
      return stmt;
    }
  }

  Result<Stmt> parse_for() {
    Stmt stmt = make(StmtKind::kFor);
    ++for_depth_;
    QUIRE_ASSIGN_OR_RETURN(stmt.target, expressions_.target(false, "in"));
    QUIRE_RETURN_IF_ERROR(check_target(*stmt.target));
    if (!stream_.skip_name("in")) return stream_.unexpected("'in'");
    QUIRE_ASSIGN_OR_RETURN(stmt.expr, expressions_.tuple(false, "recursive"));
    if (stream_.skip_name("if")) {
      QUIRE_ASSIGN_OR_RETURN(stmt.test, expressions_.expression());
    }
    stmt.recursive = stream_.skip_name("recursive");
    ++loop_depth_;
    QUIRE_ASSIGN_OR_RETURN(stmt.body, parse_body({"else", "endfor"}));
    --loop_depth_;
    if (stream_.take().text == "else") {
      QUIRE_ASSIGN_OR_RETURN(stmt.otherwise, parse_body_to("endfor"));
    }
    --for_depth_;
    return stmt;
  }

  // `loop` belongs to the for statement: nothing in one may assign to it.
  Status check_target(const Expr& target) const {
    if (target.kind == ExprKind::kName && target.name == "loop" && for_depth_ > 0) {
      return syntax_error(target.line, "cannot assign to 'loop' in a for");
    }
    for (const ExprPtr& child : target.children) QUIRE_RETURN_IF_ERROR(check_target(*child));
    return {};
  }

  Result<Stmt> parse_set() {
    Stmt stmt = make(StmtKind::kSet);
    QUIRE_ASSIGN_OR_RETURN(stmt.target, expressions_.target(true));
    QUIRE_RETURN_IF_ERROR(check_target(*stmt.target));
    if (stream_.skip_op("=")) {
      QUIRE_ASSIGN_OR_RETURN(stmt.expr, expressions_.tuple());
      return stmt;
    }
    stmt.kind = StmtKind::kSetBlock;
    if (stream_.skip_op("|")) {
      QUIRE_ASSIGN_OR_RETURN(stmt.expr, expressions_.filters(block_text()));
    }
    QUIRE_ASSIGN_OR_RETURN(stmt.body, parse_body_to("endset"));
    return stmt;
  }

  Result<Signature> parse_signature() {
    Signature signature;
    QUIRE_RETURN_IF_ERROR(stream_.expect_op("("));
    std::set<std::string> seen;
    while (!stream_.is_op(")")) {
      if (!signature.parameters.empty()) QUIRE_RETURN_IF_ERROR(stream_.expect_op(","));
      QUIRE_ASSIGN_OR_RETURN(std::string name, stream_.expect_name());
      if (!seen.insert(name).second) {
        return syntax_error(stream_.line(), "parameter '" + name + "' occurs twice");
      }
      if (stream_.skip_op("=")) {
        QUIRE_ASSIGN_OR_RETURN(ExprPtr value, expressions_.expression());
        signature.defaults.push_back(std::move(value));
      } else if (!signature.defaults.empty()) {
        return syntax_error(stream_.line(), "parameter '" + name + "' needs a default");
      }
      signature.parameters.push_back(std::move(name));
    }
    QUIRE_RETURN_IF_ERROR(stream_.expect_op(")"));
    return signature;
  }

  // The body of something that is called: loops around it do not reach into it.
  Status parse_callable_body(Stmt& stmt, std::string_view end) {
    const int loops = std::exchange(loop_depth_, 0);
    const auto outer = std::exchange(expressions_.implicit_names, {});
    QUIRE_ASSIGN_OR_RETURN(stmt.body, parse_body_to(end));
    auto& seen = expressions_.implicit_names;
    const auto& names = stmt.signature.parameters;
    const auto is_declared = [&](std::string_view name) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    stmt.uses_caller = seen.caller && !is_declared("caller");
    stmt.uses_varargs = seen.varargs && !is_declared("varargs");
    stmt.uses_kwargs = seen.kwargs && !is_declared("kwargs");
    seen = {seen.caller || outer.caller, seen.varargs || outer.varargs,
            seen.kwargs || outer.kwargs};
    loop_depth_ = loops;
    return {};
  }

  Result<Stmt> parse_macro() {
    Stmt stmt = make(StmtKind::kMacro);
    QUIRE_ASSIGN_OR_RETURN(stmt.text, stream_.expect_name());
    QUIRE_ASSIGN_OR_RETURN(stmt.signature, parse_signature());
    QUIRE_RETURN_IF_ERROR(parse_callable_body(stmt, "endmacro"));
    return stmt;
  }

  Result<Stmt> parse_call_block() {
    Stmt stmt = make(StmtKind::kCallBlock);
    if (stream_.is_op("(")) {
      QUIRE_ASSIGN_OR_RETURN(stmt.signature, parse_signature());
    }
    QUIRE_ASSIGN_OR_RETURN(stmt.expr, expressions_.expression());
    if (stmt.expr->kind != ExprKind::kCall) return syntax_error(stmt.line, "expected a call");
    QUIRE_RETURN_IF_ERROR(parse_callable_body(stmt, "endcall"));
    return stmt;
  }

  Result<Stmt> parse_filter_block() {
    Stmt stmt = make(StmtKind::kFilterBlock);
    QUIRE_ASSIGN_OR_RETURN(stmt.expr, expressions_.filters(block_text()));
    QUIRE_ASSIGN_OR_RETURN(stmt.body, parse_body_to("endfilter"));
    return stmt;
  }

  Result<Stmt> parse_with() {
    Stmt stmt = make(StmtKind::kWith);
    while (!stream_.is(TokenType::kBlockEnd)) {
      if (!stmt.bindings.empty()) QUIRE_RETURN_IF_ERROR(stream_.expect_op(","));
      QUIRE_ASSIGN_OR_RETURN(ExprPtr target, expressions_.target(false));
      QUIRE_RETURN_IF_ERROR(stream_.expect_op("="));
      QUIRE_ASSIGN_OR_RETURN(ExprPtr value, expressions_.expression());
      stmt.bindings.emplace_back(std::move(target), std::move(value));
    }
    QUIRE_ASSIGN_OR_RETURN(stmt.body, parse_body_to("endwith"));
    return stmt;
  }

  Result<Stmt> parse_generation() {
    Stmt stmt = make(StmtKind::kGeneration);
    QUIRE_RETURN_IF_ERROR(parse_callable_body(stmt, "endgeneration"));
    return stmt;
  }

  ExprPtr block_text() const {
    auto expr = std::make_unique<Expr>();
    expr->kind = ExprKind::kBlockText;
    expr->line = stream_.line();
    return expr;
  }

  TokenStream stream_;
  ExpressionParser expressions_;
  int depth_ = 0;
  int loop_depth_ = 0;  // for bodies that break and continue can reach
  int for_depth_ = 0;   // for statements around
};

}  // namespace

Result<Block> parse_template(std::string_view source) {
  QUIRE_ASSIGN_OR_RETURN(std::vector<Token> tokens, tokenize(source));
  return Parser(std::move(tokens)).run();
}

}  // namespace quire::jinja
