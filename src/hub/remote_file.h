// A file on a server, as much as has to be known to fetch it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "hub/transfers.h"

namespace quire {

struct RemoteFile {
  std::string name;  // for messages and progress
  std::string url;
  // Where `url` redirects to, if that is known; asked first.
  std::string content_url;
  // Sent as a bearer token to the server of `url`, never to another one. Empty: none.
  std::string token;
  std::optional<AwsSigning> signing;  // for requests to `url`
  std::uint64_t size = 0;
  std::string hash_etag;  // what FileHash::expecting() reads; empty: there is no hash to check
  std::string if_match;   // the entity tag that every piece must be of; empty: none
};

// Tells of a download, and may end it.
struct DownloadListener {
  // Bytes of the file that are there; called often.
  std::function<void(std::uint64_t done)> progress;
  std::function<bool()> cancelled;
  // A problem that was overcome: "connection reset; again in 2 s".
  std::function<void(const std::string& text)> note;
};

// What an answer that is no success means for `file`.
using ExplainAnswer = std::function<Status(const FetchAnswer& answer)>;

}  // namespace quire
