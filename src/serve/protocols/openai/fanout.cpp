#include "serve/protocols/openai/fanout.h"

namespace quire {

Result<std::shared_ptr<Fanout>> Fanout::submit(Service& service, const RequestOrigin& origin,
                                               std::vector<GenerateRequest> requests, Sink sink) {
  std::shared_ptr<Fanout> fanout(new Fanout(service, std::move(sink)));
  fanout->num_requests_ = requests.size();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    auto id = service.submit(origin, std::move(requests[i]),
                             [fanout, i](const RequestOutput& output) { fanout->take(i, output); });
    if (!id.ok()) {
      fanout->abort();
      return id.status();
    }
    const std::lock_guard lock(fanout->mutex_);
    fanout->ids_.push_back(*id);
  }
  return fanout;
}

void Fanout::take(std::size_t prompt, const RequestOutput& output) {
  const std::lock_guard lock(mutex_);
  if (output.request_finished) ++num_finished_;
  if (aborted_) return;
  if (!open_) {
    early_.emplace_back(prompt, output);
    return;
  }
  sink_(prompt, output);
  if (num_finished_ == num_requests_) sink_ = nullptr;  // and what it holds
}

void Fanout::open() {
  const std::lock_guard lock(mutex_);
  open_ = true;
  for (const auto& [prompt, output] : early_) sink_(prompt, output);
  early_ = {};
  if (num_finished_ == num_requests_) sink_ = nullptr;
}

void Fanout::abort() {
  std::vector<RequestId> ids;
  Sink dropped;
  {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    ids = ids_;
    dropped.swap(sink_);
    early_ = {};
  }
  for (const RequestId id : ids) service_.engine().abort(id);
}

}  // namespace quire
