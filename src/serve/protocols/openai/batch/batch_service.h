// The Files and Batch API, durable in one SQLite database.
//
//   QUIRE_ASSIGN_OR_RETURN(auto batches, BatchService::open({.database = path}, handler_of));
//   router.add_all(batches->routes());
//   QUIRE_RETURN_IF_ERROR(batches->start());  // ... and batches->stop() as soon as the server
//   begins to shut down
//
// where handler_of gives the handler of "/v1/chat/completions" and so on, or null. Of files,
// nothing but an upload (64 MiB), a download (256 MiB, two at a time) and the lines in flight (32)
// is ever in memory. What the database may contain is bounded by BatchLimits; beyond it uploads are
// refused with 507, and batches wait until there is room.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "base/status.h"
#include "serve/http/router.h"
#include "serve/protocols/openai/batch/batch_database.h"
#include "serve/protocols/openai/batch/batch_store.h"
#include "serve/protocols/openai/batch/batch_types.h"
#include "serve/protocols/openai/batch/batch_worker.h"
#include "serve/protocols/openai/batch/file_store.h"

namespace quire {

struct BatchServiceConfig {
  std::filesystem::path database;  // its folder is created
  bool strict_fields = false;      // unknown request fields are refused
  BatchLimits limits = {};
  UnixClock now = {};  // empty: the system's clock
};

class BatchService {
 public:
  // kUnavailable where another process uses the database, kConfig where a later version wrote it,
  // kIoError where it cannot be written.
  static Result<std::unique_ptr<BatchService>> open(BatchServiceConfig config,
                                                    EndpointHandlers handlers);
  ~BatchService();

  // They borrow this object.
  std::vector<Route> routes();

  // Goes on with the batches that have not ended. The handlers have to be able to answer.
  // kUnavailable where the system has no thread for that.
  Status start();
  // Takes no new line, aborts those in flight (they run again after the next start) and returns
  // when what was done is stored. The routes go on to answer.
  void stop();

 private:
  BatchService(BatchServiceConfig config, std::unique_ptr<BatchDatabase> database,
               EndpointHandlers handlers);

  BatchServiceConfig config_;
  EndpointHandlers handlers_;
  std::unique_ptr<BatchDatabase> database_;
  FileStore files_;
  BatchStore batches_;
  BatchWorker worker_;
};

}  // namespace quire
