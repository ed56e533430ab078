// Values of `quire plan` as people write them.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace quire {

// "7B", "671B", "1.5T", "350M": numbers of a model. kInvalidArgument.
Result<double> parse_parameters(std::string_view text);

// "50ms", "1.5s", "2m" or plain seconds; above 0. kInvalidArgument.
Result<double> parse_seconds(std::string_view text);

// A number of bytes in the unit that fits: "1.25 GiB".
std::string binary_bytes(double bytes);

// "850 us", "12.3 ms", "1.20 s".
std::string time_text(double seconds);

}  // namespace quire
