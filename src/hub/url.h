// The few things about addresses that fetching a model needs. RFC 3986.
#pragma once

#include <string>
#include <string_view>

namespace quire {

// `text` with all but letters, digits and -._~ written as %XX, and but `kept`.
std::string percent_encoded(std::string_view text, std::string_view kept = "");
// %XX as bytes; a % that begins none stays.
std::string percent_decoded(std::string_view text);

// "https://host:8443" of an address, with the port even where it is the scheme's own; empty if it
// is no http or https address. Two addresses with one origin are the same server.
std::string origin_of(std::string_view url);
// The same for people: without a port that is the scheme's own.
std::string server_of(std::string_view url);

}  // namespace quire
