#include "serve/why/why_routes.h"

#include <memory>
#include <utility>

#include <fmt/format.h>

#include "serve/http/http_error.h"

namespace quire {
namespace {

constexpr std::size_t kMaxLooks = 64;  // outputs of one request that are looked up while they run

void answer(Exchange& exchange, const Service& service, std::string_view id,
            const std::vector<OutputStory>& stories) {
  const auto names = [&service](RequestId output) { return service.directory().name(output); };
  json::array outputs;
  for (const OutputStory& story : stories) {
    outputs.push_back(story_json(story, names, service.engine().now()));
  }
  exchange.respond({.body = json::serialize(json::object{
                        {"id", id}, {"object", "request.why"}, {"outputs", std::move(outputs)}})});
}

// What the scheduler knows of outputs that go on.
void complete(std::vector<OutputStory>& stories, const Scheduler& scheduler) {
  std::size_t num_looks = 0;
  for (OutputStory& story : stories) {
    if (!story.finish_reason.empty() || num_looks == kMaxLooks) continue;
    const Request* request = scheduler.find(story.output_id);
    if (request == nullptr) continue;
    ++num_looks;
    story.arrival = request->arrival();
    story.num_output_tokens = request->num_output_tokens();
    story.num_preemptions = request->num_preemptions();
    story.timeline = std::make_shared<const RequestTimeline>(request->timeline());
  }
}

}  // namespace

std::vector<Route> why_routes(Service& service) {
  const auto handle = [&service](std::shared_ptr<Exchange> exchange) {
    const std::string id(exchange->request().path_param("id"));
    auto stories = service.directory().find(id);
    if (stories.empty()) {
      return exchange->respond(
          http_error(404,
                     fmt::format("no request {} among those that run and the last {} that ended",
                                 id, RequestDirectory::kMaxFinished),
                     "not_found"));
    }
    const bool all_ended = std::ranges::all_of(
        stories, [](const OutputStory& story) { return !story.finish_reason.empty(); });
    if (all_ended) return answer(*exchange, service, id, stories);
    service.engine().inspect([&service, exchange = std::move(exchange), id,
                              stories = std::move(stories)](const Scheduler* scheduler) mutable {
      if (scheduler != nullptr) complete(stories, *scheduler);
      answer(*exchange, service, id, stories);
    });
  };
  std::vector<Route> routes;
  routes.push_back({.method = "GET", .pattern = "/requests/{id}/why", .handler = handle});
  return routes;
}

}  // namespace quire
