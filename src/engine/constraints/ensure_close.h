// `ensure_close`: of the tokens that a request may have, enough are kept to bring what constrains
// its text to an end.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/ids.h"
#include "base/status.h"
#include "text/grammar/grammar_matcher.h"

namespace quire {

// kInvalidArgument, beginning with the field's name, where the shortest text and the token that
// ends it do not fit into `most` tokens.
Status check_closable(const std::shared_ptr<const CompiledGrammar>& grammar, std::int64_t most);

// Whether behind `token`, which may come next, the text can be ended with `left` tokens, that one
// and the one that ends the sequence among them.
bool can_close_behind(GrammarMatcher& matcher, TokenId token, std::int64_t left);
// Of the tokens that fill_mask() has allowed, leaves out those behind which it cannot. Errors as of
// GrammarMatcher::keep_closable.
Status keep_closable(GrammarMatcher& matcher, std::int64_t left, std::span<std::uint32_t> words);

}  // namespace quire
