// /v1/batches: create, list, show, cancel.
#pragma once

#include <vector>

#include "serve/http/router.h"
#include "serve/protocols/openai/batch/batch_store.h"
#include "serve/protocols/openai/batch/batch_worker.h"
#include "serve/protocols/openai/batch/file_store.h"

namespace quire {

// What the routes borrow.
struct BatchRoutesContext {
  FileStore& files;
  BatchStore& batches;
  BatchWorker& worker;
  EndpointHandlers handlers;
  UnixClock now;
  bool strict_fields = false;
};

std::vector<Route> batch_routes(const BatchRoutesContext& context);

}  // namespace quire
