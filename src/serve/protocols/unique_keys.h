// Duplicate keys in a JSON text. Parsers differ in which of two equal keys they use, so a request
// that has them may mean one thing to what stands before this server and another to the server.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire {

// The first key that stands twice in one object of a valid JSON text.
std::optional<std::string> find_duplicate_key(std::string_view text);

}  // namespace quire
