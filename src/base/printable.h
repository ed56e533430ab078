// Text from outside (files, requests, servers), made fit for a message, a log or a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace quire {

// `raw` with control characters, line separators and bytes that are not UTF-8 written as \xNN, cut
// with "..." before the result would have more than `max_bytes` bytes. printable() of its own
// result changes nothing.
std::string printable(std::string_view raw, std::size_t max_bytes = 120);

}  // namespace quire
