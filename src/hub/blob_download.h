// One file from a server to this machine.
#pragma once

#include <filesystem>

#include "base/status.h"
#include "hub/remote_file.h"
#include "hub/transfers.h"

namespace quire {

// Fetches `file` into `partial`, which is at every moment the file's beginning and nothing else:
// what is there already (of this or another program that keeps to this) is used. Parts of
// 8 MiB come over up to 8 connections at once and are written in their order; a server that gives
// no parts sends it as one. Connections that break, 429 and 5xx are tried again, 6 times without
// progress at most, each part from where it ended. At the end the file is on the disk and its hash
// checked; only then may it be shown under its name.
//
// Memory: 64 MiB. kIoError for a disk that is full (what came stays) and for a wrong hash (what
// came is removed), kUnavailable for a server that cannot be reached, kCancelled, or what `explain`
// says.
Status download(Transfers& transfers, const RemoteFile& file, const std::filesystem::path& partial,
                const ExplainAnswer& explain, const DownloadListener& listener);

}  // namespace quire
