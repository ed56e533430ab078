// Substring search in linear time, whatever the texts are.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace quire::jinja {

// First occurrence of `needle` in `text` at or after `from`, or npos.
std::size_t find_bytes(std::string_view text, std::string_view needle, std::size_t from);
// Last occurrence that ends at or before `end`, or npos.
std::size_t rfind_bytes(std::string_view text, std::string_view needle, std::size_t end);
// Up to `limit` occurrences that do not overlap, found from the left or, with `from_right`, from
// the right; ascending. The needle is not empty.
std::vector<std::size_t> find_all(std::string_view text, std::string_view needle, std::size_t limit,
                                  bool from_right = false);

}  // namespace quire::jinja
