// The rules of a grammar's text by their names. Internal to src/text/grammar.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/status.h"
#include "text/grammar/grammar.h"
#include "text/grammar/source_cursor.h"

namespace quire {

class RuleNames {
 public:
  explicit RuleNames(GrammarBuilder& builder) : builder_(&builder) {}

  // The rule of that name, whether or not it is defined yet; `position` is where it is used.
  RuleId use(std::string_view name, std::size_t position);
  // kInvalidArgument where it is defined already.
  Status define(std::string_view name, ExprId body, std::size_t position,
                const SourceCursor& cursor);
  // The grammar, from rule `root` on. kInvalidArgument naming a rule that is used and not defined,
  // or saying that there is no `root`.
  Result<Grammar> build(std::string_view root, const SourceCursor& cursor);

 private:
  struct Entry {
    RuleId rule = 0;
    std::size_t position = 0;  // of its first use
    bool defined = false;
  };

  GrammarBuilder* builder_;
  std::map<std::string, Entry, std::less<>> entries_;
};

// A character's bytes.
void append_utf8(char32_t code, std::string& out);

// The character behind a backslash, which stands at the cursor, in a string or a class of EBNF and
// Lark: \n \r \t \v \f \0 \xHH \uHHHH \UHHHHHHHH, or itself where it is no letter or digit.
Result<char32_t> take_escape(SourceCursor& cursor);

// "text" with escapes, the cursor at the quote that ends it, too.
Result<std::string> take_string(SourceCursor& cursor);

// [a-z], [^a-z], the cursor at the bracket.
Result<CharSet> take_class(SourceCursor& cursor);

// <[17]> or <|name|>, the cursor at the <.
Result<ExprId> take_token(SourceCursor& cursor, GrammarBuilder& builder);

}  // namespace quire
