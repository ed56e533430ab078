#include "serve/why/why_routes.h"

#include <atomic>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "serve/http/http_error.h"

namespace quire {
namespace {

constexpr std::size_t kMaxLooks = 64;  // outputs of one request that are looked up while they run

// An answer on its way. Outputs that have ended are written by whoever asks, those that go on by
// the engine's thread as it finds them; those that end between the two (the step in flight is done
// first) as soon as their end has been told.
class WhyAnswer : public std::enable_shared_from_this<WhyAnswer> {
 public:
  WhyAnswer(Engine& engine, RequestDirectory& directory, bool scoped_by_key, CostOf cost_of,
            std::shared_ptr<Exchange> exchange, std::string id)
      : engine_(engine),
        directory_(directory),
        scoped_by_key_(scoped_by_key),
        cost_of_(std::move(cost_of)),
        exchange_(std::move(exchange)),
        id_(std::move(id)),
        stories_(directory.find(id_)),
        outputs_(stories_.size()) {}

  void give() {
    const Instant now = engine_.now();
    for (std::size_t i = 0; i < stories_.size(); ++i) {
      const OutputStory& story = stories_[i];
      if (!story.finish_reason.empty() || story.output_id == 0) {
        write(i, story, now);
      } else if (looks_.size() < kMaxLooks) {
        looks_.push_back(i);
      } else {
        outputs_[i] = unread_story_json(
            story, now, fmt::format("only the first {} outputs that run are looked at", kMaxLooks));
      }
    }
    if (looks_.empty()) return respond();
    engine_.inspect([self = shared_from_this()](const EngineState* state) { self->look(state); });
  }

 private:
  // What the engine knows of outputs that go on.
  void look(const EngineState* state) {
    const Instant now = engine_.now();
    std::vector<std::size_t> ended;
    for (const std::size_t i : looks_) {
      OutputStory& story = stories_[i];
      const auto output = state == nullptr ? std::nullopt : state->find(story.output_id, now);
      if (!output) {
        ended.push_back(i);
        continue;
      }
      story.arrival = output->arrival;
      story.num_output_tokens = output->num_tokens - output->num_prompt_tokens;
      story.num_preemptions = output->num_preemptions;
      story.timeline = state->timeline(story.output_id);
      write(i, story, now);
    }
    if (ended.empty()) return respond();
    num_awaited_ = ended.size();
    for (const std::size_t i : ended) {
      directory_.when_ended(stories_[i].output_id, [self = shared_from_this(), i,
                                                    now](const std::optional<OutputStory>& story) {
        if (story) self->write(i, *story, now);
        if (--self->num_awaited_ == 0) self->respond();
      });
    }
  }

  void write(std::size_t i, OutputStory story, Instant now) {
    if (!story.finish_reason.empty()) story.cost = cost_of_(story.step_time);
    const auto names = [this](RequestId output) { return directory_.name(output); };
    outputs_[i] = story_json(story, names, prefix_names(story), now);
  }

  // Texts are for whoever has the request's own key: others may only know its id. What is cached
  // may be another key's, where they share.
  PrefixNames prefix_names(const OutputStory& story) const {
    const std::string& asker = exchange_->request().caller;
    PrefixNames names;
    names.others = [this, &asker](RequestId output) { return directory_.name_for(asker, output); };
    if (asker == story.caller) {
      names.text = [this](TokenId token) {
        return engine_.tokenizer().decode({&token, 1}, /*skip_special_tokens=*/false);
      };
    }
    names.tell_cached = scoped_by_key_ || asker.empty();
    names.salted = story.salted;
    return names;
  }

  void respond() {
    json::array known;
    for (json::value& output : outputs_) {
      if (!output.is_null()) known.push_back(std::move(output));  // null: forgotten meanwhile
    }
    if (known.empty()) {
      return exchange_->respond(http_error(
          404,
          fmt::format("no request {} among those that run and, at most, the last {} that ended",
                      id_, RequestDirectory::kMaxFinished),
          "not_found"));
    }
    exchange_->respond(
        {.body = json::serialize(
             json::object{{"id", id_}, {"object", "request.why"}, {"outputs", std::move(known)}})});
  }

  Engine& engine_;
  RequestDirectory& directory_;
  const bool scoped_by_key_;
  const CostOf cost_of_;
  std::shared_ptr<Exchange> exchange_;
  std::string id_;
  std::vector<OutputStory> stories_;
  json::array outputs_;             // of each story; null while it is not known
  std::vector<std::size_t> looks_;  // the stories that the scheduler is asked for
  std::atomic<std::size_t> num_awaited_ = 0;
};

}  // namespace

std::vector<Route> why_routes(Engine& engine, RequestDirectory& directory, bool scoped_by_key,
                              CostOf cost_of) {
  const auto handle = [&engine, &directory, scoped_by_key,
                       cost_of = std::move(cost_of)](std::shared_ptr<Exchange> exchange) {
    std::string id(exchange->request().path_param("id"));
    std::make_shared<WhyAnswer>(engine, directory, scoped_by_key, cost_of, std::move(exchange),
                                std::move(id))
        ->give();
  };
  std::vector<Route> routes;
  routes.push_back({.method = "GET", .pattern = "/requests/{id}/why", .handler = handle});
  return routes;
}

}  // namespace quire
