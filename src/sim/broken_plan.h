// How the simulated executor refuses a plan.
#pragma once

#include <utility>

#include <fmt/format.h>

#include "base/status.h"

namespace quire {

// kInternal, with the request and the rule that the plan breaks.
template <typename... Args>
Status broken_plan(fmt::format_string<Args...> format, Args&&... args) {
  return Status::internal(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace quire
