// How other machines reach a server that listens on all addresses.
#pragma once

#include <string>

namespace quire {

// `url` with this machine's own address in place of 0.0.0.0 and [::], which no browser elsewhere
// can open: the first IPv4 address that is not the loopback's, else 127.0.0.1. Other urls as they
// are.
std::string reachable_url(const std::string& url);

}  // namespace quire
