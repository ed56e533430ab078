// Text out of untrusted files, made fit for a message or a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace quire {

// `raw` with control characters and bytes that are not UTF-8 written as \xNN, cut with "..." after
// `max_bytes` bytes of it.
std::string printable(std::string_view raw, std::size_t max_bytes = 120);

}  // namespace quire
