// The files of one model from their servers to this machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "base/status.h"
#include "hub/pull.h"
#include "hub/remote_file.h"

namespace quire {

struct FetchedFile {
  RemoteFile remote;
  std::filesystem::path target;   // where the whole file goes
  std::filesystem::path partial;  // where its beginning is, on the same file system
  std::filesystem::path lock;
  ExplainAnswer explain;
  std::function<Status()> done;  // once it is there
};

// Fetches the files that are not there with their full size, one after the other, once the disk has
// room for all. Returns the number of bytes that came over the network. kIoError, or what
// download() says.
Result<std::uint64_t> fetch_files(const std::vector<FetchedFile>& files, Transfers& transfers,
                                  const PullListener& listener);

}  // namespace quire
