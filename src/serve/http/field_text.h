// Text of headers and settings: bytes from outside, which may be anything.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

// The beginning of a text, fit for a message or a line of the log: what is not printable ASCII is
// a question mark.
std::string shown(std::string_view text, std::size_t max_bytes = 100);

// The beginning of a text: at most so many bytes, whole characters of UTF-8.
std::string clipped(std::string_view text, std::size_t max_bytes);

// Without the optional white space of HTTP (spaces and tabs) around it.
std::string_view trimmed(std::string_view text);

// The members of a list with commas between them, trimmed; empty ones are passed over.
std::vector<std::string_view> split_members(std::string_view text);

// Of ASCII letters; other bytes are as they are.
bool equal_ignoring_case(std::string_view a, std::string_view b);

}  // namespace quire
