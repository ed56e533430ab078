// The one token that a constraint leaves where its text is forced: of all ways to spell what has to
// come the tokenizer's own, so that the model sees what it was trained on, and so that what comes
// is known without the model. It is a function of where the text is, so masks are the same whether
// forced tokens are guessed ahead or come one by one.
#pragma once

#include <cstddef>
#include <optional>

#include "base/ids.h"
#include "text/grammar/grammar_matcher.h"
#include "text/tokenizer.h"

namespace quire {

// Text that is looked at, at most.
inline constexpr std::size_t kMaxForcedBytes = 96;

// The next token where text is forced, up to a place at which the tokenizer cuts whatever follows;
// nullopt elsewhere, and where the tokenizer would not begin that text in the middle of one.
std::optional<TokenId> forced_token(GrammarMatcher& matcher, const Tokenizer& tokenizer);

}  // namespace quire
