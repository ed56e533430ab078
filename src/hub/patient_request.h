// A small request to a server that may be busy.
#pragma once

#include <string>

#include "base/status.h"
#include "hub/remote_file.h"
#include "hub/transfers.h"

namespace quire {

// Sends `request` up to 5 times (3 where nobody answers), until its answer is neither missing nor
// 429 or 5xx, with pauses that grow or are as long as the server asks for (a minute at most). The
// last answer, whatever its status; a success has its body in `body`. kUnavailable where none
// comes, kCancelled.
Result<FetchAnswer> patient_request(Transfers& transfers, const FetchRequest& request,
                                    std::size_t max_bytes, std::string& body,
                                    const DownloadListener& listener);

}  // namespace quire
