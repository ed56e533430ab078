// The name of a server in a request, "example.org:8000": whether it is well formed. What is not may
// be read as one name here and as another elsewhere.
#pragma once

#include <string_view>

namespace quire {

// A host and maybe a port as RFC 3986 writes them: "example.org", "127.0.0.1:80", "[::1]:8000". No
// user ("a@b"), no path, not empty.
bool valid_authority(std::string_view text);

// What browsers send as Origin: "null" or one "scheme://host:port", the host empty for files.
bool valid_origin(std::string_view text);

}  // namespace quire
