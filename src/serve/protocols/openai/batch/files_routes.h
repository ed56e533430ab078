// /v1/files: upload, list, show, content, delete.
#pragma once

#include <vector>

#include "serve/http/router.h"
#include "serve/protocols/openai/batch/batch_types.h"
#include "serve/protocols/openai/batch/batch_worker.h"
#include "serve/protocols/openai/batch/file_store.h"

namespace quire {

// Borrows the store and the limits.
std::vector<Route> files_routes(FileStore& files, const BatchLimits& limits, UnixClock now);

}  // namespace quire
