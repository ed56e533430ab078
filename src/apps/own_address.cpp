#include "apps/own_address.h"

#include <arpa/inet.h>
#include <array>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netinet/in.h>
#include <string_view>

namespace quire {
namespace {

std::string own_address() {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) return "127.0.0.1";
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(found, ::freeifaddrs);
  for (const ifaddrs* each = found; each != nullptr; each = each->ifa_next) {
    const bool usable = (each->ifa_flags & IFF_UP) != 0 && (each->ifa_flags & IFF_LOOPBACK) == 0;
    if (!usable || each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    const auto* address = reinterpret_cast<const sockaddr_in*>(each->ifa_addr);
    std::array<char, INET_ADDRSTRLEN> text{};
    if (::inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size()) != nullptr) {
      return text.data();
    }
  }
  return "127.0.0.1";
}

}  // namespace

std::string reachable_url(const std::string& url) {
  for (const std::string_view all : {"//0.0.0.0:", "//[::]:"}) {
    const std::size_t at = url.find(all);
    if (at == std::string::npos) continue;
    std::string reachable = url;
    return reachable.replace(at, all.size(), "//" + own_address() + ":");
  }
  return url;
}

}  // namespace quire
