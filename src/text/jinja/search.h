// Substring search in linear time, whatever the texts are.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/jinja/budget.h"

namespace quire::jinja {

// First occurrence of `needle` in `text` at or after `from`, or npos.
std::size_t find_bytes(std::string_view text, std::string_view needle, std::size_t from);
// Last occurrence, or npos.
Result<std::size_t> rfind_bytes(std::string_view text, std::string_view needle, Budget& budget);
// Up to `limit` occurrences that do not overlap, found from the left or, with `from_right`, from
// the right; ascending. The needle is not empty.
Result<std::vector<std::size_t>> find_all(std::string_view text, std::string_view needle,
                                          std::size_t limit, bool from_right, Budget& budget);
// How many find_all() finds without a limit.
std::size_t count_all(std::string_view text, std::string_view needle);

}  // namespace quire::jinja
