// The model of a command without --model.
#pragma once

#include <string>

#include "base/status.h"

namespace quire {

// Where the bundled model lies: under the source tree that built the program, or in the working
// directory. kNotFound says how to fetch it.
Result<std::string> bundled_model();

}  // namespace quire
