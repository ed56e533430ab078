// The terminals of Lark's library "common" (lark/grammars/common.lark). Internal to
// src/text/grammar.
#pragma once

#include <optional>
#include <string_view>

namespace quire {

// A regular expression of the same texts; nullopt for a name that the library does not have.
std::optional<std::string_view> common_terminal(std::string_view name);

}  // namespace quire
