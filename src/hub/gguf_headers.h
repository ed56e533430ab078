// The headers of a GGUF model's files, without the weights behind them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "base/status.h"
#include "hub/fetch_files.h"

namespace quire {

// Makes each file's `target` as large as the file is, with its header in place, and a hole where
// the weights would be. Headers are read by ranges that grow until one has all. Errors: what a
// file's `explain` says; kUnimplemented for a server that gives no parts of files; those of
// read_gguf_header(), before more is read; kUnavailable, kCancelled, kIoError.
Status fetch_gguf_headers(const std::vector<FetchedFile>& files, Transfers& transfers,
                          const PullListener& listener);

}  // namespace quire
