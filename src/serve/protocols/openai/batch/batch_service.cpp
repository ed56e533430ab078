#include "serve/protocols/openai/batch/batch_service.h"

#include <ctime>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "serve/protocols/openai/batch/batch_routes.h"
#include "serve/protocols/openai/batch/files_routes.h"

namespace quire {

Result<std::unique_ptr<BatchService>> BatchService::open(BatchServiceConfig config,
                                                         EndpointHandlers handlers) {
  const std::filesystem::path folder = config.database.parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) {
    return Status::io_error(
        fmt::format("{}: cannot create the folder: {}", folder.string(), error.message()),
        "choose a folder that this user can write to");
  }
  if (!config.now) config.now = [] { return static_cast<std::int64_t>(std::time(nullptr)); };
  QUIRE_ASSIGN_OR_RETURN(auto database, BatchDatabase::open(config.database, config.limits));
  return std::unique_ptr<BatchService>(
      new BatchService(std::move(config), std::move(database), std::move(handlers)));
}

BatchService::BatchService(BatchServiceConfig config, std::unique_ptr<BatchDatabase> database,
                           EndpointHandlers handlers)
    : config_(std::move(config)),
      handlers_(std::move(handlers)),
      database_(std::move(database)),
      files_(*database_),
      batches_(*database_),
      worker_(files_, batches_, config_.limits, handlers_, config_.now) {}

BatchService::~BatchService() { stop(); }

std::vector<Route> BatchService::routes() {
  std::vector<Route> routes = files_routes(files_, config_.limits, config_.now);
  for (Route& route : batch_routes({.files = files_,
                      .batches = batches_,
                      .worker = worker_,
                      .handlers = handlers_,
                      .now = config_.now,
                      .strict_fields = config_.strict_fields})) {
    routes.push_back(std::move(route));
  }
  return routes;
}

Status BatchService::start() { return worker_.start(); }

void BatchService::stop() { worker_.stop(); }

}  // namespace quire
