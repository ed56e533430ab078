// The front door, which all protocols share: which model a request means, whether requests are
// accepted. Connections, keys and limits of bodies are http/'s; what becomes of a request is its
// model's affair (models/served_model.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "engine/api.h"
#include "serve/models/served_model.h"
#include "serve/models/service_config.h"
#include "serve/models/step_watch.h"
#include "serve/requests/drain.h"
#include "serve/requests/rare_warning.h"

namespace quire {

class Service {
 public:
  // For one model; the parameters are those of ServedModel.
  Service(std::shared_ptr<Engine> engine, const ServiceConfig& config,
          std::shared_ptr<StepWatch> steps);

  const ServiceConfig& config() const { return config_; }

  // The model of requests that name none.
  ServedModel& model() const { return *model_; }
  // The model that requests mean by this name; null: there is none. An empty name stands for
  // model().
  ServedModel* find(std::string_view name) const;

  // Logs fields of requests that are ignored.
  RareWarning& ignored_fields() const { return ignored_fields_; }

  // What each key may ask for (quotas/metered_routes.h).
  KeyQuotas& quotas() { return quotas_; }

  // No more requests are accepted; those in flight continue.
  void drain() { drain_.begin(); }
  bool draining() const { return drain_.begun(); }
  std::int64_t num_in_flight() const { return drain_.num_in_flight(); }

 private:
  ServiceConfig config_;
  Drain drain_;
  KeyQuotas quotas_;
  mutable RareWarning ignored_fields_;
  std::unique_ptr<ServedModel> model_;
};

}  // namespace quire
