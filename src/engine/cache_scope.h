// A request's scope in the prefix cache (core/cache_scope.h), from what it says.
#pragma once

#include <string_view>

#include "core/cache_scope.h"

namespace quire {

// Other owners and other salts have other scopes; the scope of two empty ones is zero.
CacheScope cache_scope_of(std::string_view owner, std::string_view salt);

}  // namespace quire
