#include "serve/service.h"

#include <utility>

namespace quire {

Service::Service(std::shared_ptr<Engine> engine, const ServiceConfig& config,
                 std::shared_ptr<StepWatch> steps)
    : config_(config),
      quotas_(config.quotas, config.key_quotas),
      model_(std::make_unique<ServedModel>(std::move(engine), config, std::move(steps), drain_,
                                           quotas_)) {}

ServedModel* Service::find(std::string_view name) const {
  return name.empty() || model_->has_name(name) ? model_.get() : nullptr;
}

}  // namespace quire
