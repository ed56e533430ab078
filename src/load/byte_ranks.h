// Vocabularies that are published as byte strings in the order of their merging: tiktoken's files
// (github.com/openai/tiktoken) and Mistral's tekken.json (github.com/mistralai/mistral-common).
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "text/vocab_data.h"

namespace quire {

// A file with a line "BASE64 RANK" for each token; the rank is its id. `regex` cuts text into
// words. kBadModel for a line of another form, an id that two tokens have, a gap.
Result<VocabData> read_tiktoken(std::string_view file, std::string_view regex,
                                std::string_view where);

// Whether a file begins with such a line: they share names with SentencePiece's.
bool is_tiktoken(std::string_view file);

// tekken.json, versions v3 and later: control tokens come first, those that it does not name are
// <SPECIAL_N>. BOS is "<s>", EOS "</s>"; BOS is put before a text. kBadModel.
Result<VocabData> read_tekken(const json::value& file, std::string_view where);

}  // namespace quire
