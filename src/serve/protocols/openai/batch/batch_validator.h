// Reads a batch's input file piece by piece, checks each line and writes down where it lies.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "serve/protocols/openai/batch/batch_line.h"
#include "serve/protocols/openai/batch/batch_store.h"
#include "serve/protocols/openai/batch/batch_types.h"
#include "serve/protocols/openai/batch/file_store.h"

namespace quire {

// Brings a batch in status validating to in_progress, or to failed with what is wrong with its file
// (the first 100 errors). It begins anew where an earlier one was interrupted. kCancelled as soon
// as `stop` is set; other errors are of the storage, and the validation can be tried again.
Status validate_batch(const BatchInfo& batch, FileStore& files, BatchStore& batches,
                      const BatchLimits& limits, std::int64_t now, const std::atomic<bool>& stop);

}  // namespace quire
