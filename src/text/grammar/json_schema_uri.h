// Addresses as JSON Schema uses them: splitting off the fragment, and resolving a reference against
// a base (RFC 3986, sections 5.2 and 5.3).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire {

// `reference` as seen from `base` (absolute, or empty where nothing is known), without a fragment.
std::string resolve_uri(std::string_view base, std::string_view reference);

// What stands before and behind the first '#'; the fragment is nullopt without one.
struct UriParts {
  std::string_view address;
  std::optional<std::string_view> fragment;
};
UriParts split_fragment(std::string_view reference);

// "%25" as "%"; nullopt where a percent sign is not followed by two hexadecimal digits.
std::optional<std::string> percent_decode(std::string_view text);

}  // namespace quire
