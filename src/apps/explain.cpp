// `quire explain`: what a request did with its time, from an event log.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "apps/commands.h"
#include "apps/event_log_files.h"
#include "apps/help.h"
#include "base/json.h"
#include "engine/event_log/replay.h"
#include "serve/why/request_story.h"

namespace quire {
namespace {

struct ExplainFlags {
  std::string id;
  std::filesystem::path event_log;
  bool json = false;
};

// Looks for the outputs of one request while a log is replayed.
class Search {
 public:
  explicit Search(std::string id) : id_(std::move(id)) {}

  void note_end(const Request& request) {
    names_[request.id()] = name_of(request);
    if (!matches(request)) return;
    stories_.push_back(story_of(request));
    found_ = true;
  }

  // Whether all of its outputs have ended.
  bool done(const Scheduler* scheduler) {
    if (!std::exchange(found_, false)) return done_;
    done_ = live(scheduler).empty();
    return done_;
  }

  // What the replay came upon, those that go on at its end too; by output.
  std::vector<OutputStory> take(const Scheduler* scheduler) {
    for (const Request* request : live(scheduler)) stories_.push_back(story_of(*request));
    std::ranges::sort(stories_, {}, &OutputStory::output_id);
    return std::move(stories_);
  }

  std::string name(RequestId id, const Scheduler* scheduler) const {
    if (const auto found = names_.find(id); found != names_.end()) return found->second;
    const Request* request = scheduler == nullptr ? nullptr : scheduler->find(id);
    return request == nullptr ? std::to_string(id) : name_of(*request);
  }

 private:
  static std::string name_of(const Request& request) {
    if (request.external_id().empty()) return std::to_string(request.id());
    return output_name(request.external_id(), request.sampling_params()->n, request.sample_index());
  }

  bool matches(const Request& request) const {
    return request.external_id() == id_ || name_of(request) == id_ ||
           std::to_string(request.id()) == id_;
  }

  std::vector<const Request*> live(const Scheduler* scheduler) const {
    std::vector<const Request*> requests;
    if (scheduler == nullptr) return requests;
    for (const auto& queue : {scheduler->running(), scheduler->waiting()}) {
      std::ranges::copy_if(queue, std::back_inserter(requests),
                           [&](const Request* request) { return matches(*request); });
    }
    return requests;
  }

  // The log begins and ends with the scheduler: nothing is known of the way in and out.
  static OutputStory story_of(const Request& request) {
    OutputStory story;
    story.output_id = request.id();
    story.index = request.sample_index();
    if (request.finish_reason()) story.finish_reason = finish_reason_name(*request.finish_reason());
    story.num_prompt_tokens = request.num_prompt_tokens();
    story.num_output_tokens = request.num_output_tokens();
    story.num_preemptions = request.num_preemptions();
    story.received = request.arrival();
    story.submitted = request.arrival();
    story.arrival = request.arrival();
    story.end = request.finish_time();
    story.told = request.finish_time();
    story.timeline = std::make_shared<const RequestTimeline>(request.timeline());
    return story;
  }

  std::string id_;
  bool found_ = false;  // one ended since done() was last asked
  bool done_ = false;
  std::vector<OutputStory> stories_;
  std::unordered_map<RequestId, std::string> names_;  // of those that ended
};

Status run_explain(const ExplainFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const auto files, event_log_files(flags.event_log));
  Search search(flags.id);
  Replay replay([&](const Request& request, Instant) { search.note_end(request); });
  ReplayNotes notes;
  QUIRE_RETURN_IF_ERROR(replay_files(
      files, replay, notes, [&] { return search.done(replay.scheduler()); },
      [](std::uint64_t, std::uint64_t) {}));
  if (replay.difference()) {
    return Status::internal(fmt::format("the event log does not replay to the same schedule: {}",
                                        replay.difference()->what),
                            "quire replay shows the difference");
  }
  const std::vector<OutputStory> stories = search.take(replay.scheduler());
  if (stories.empty()) {
    return Status::not_found(
        fmt::format("the event log {} has no request {}", flags.event_log.string(), flags.id),
        "it may have ended before the oldest segment that is kept");
  }
  const RequestNames names = [&](RequestId id) { return search.name(id, replay.scheduler()); };
  json::array outputs;
  for (const OutputStory& story : stories) {
    outputs.push_back(story_json(story, names, {.others = names}, replay.time()));
  }
  if (flags.json) {
    fmt::print("{}\n",
               json::serialize(json::object{{"id", flags.id}, {"outputs", std::move(outputs)}}));
    return {};
  }
  for (const json::value& each : outputs) {
    const json::object& story = each.as_object();
    const json::value* reason = story.if_contains("finish_reason");
    fmt::print("request {}, output {}: {} prompt tokens, {} output tokens, {} preemptions, {}\n",
               flags.id, story.at("index").as_int64(), story.at("prompt_tokens").as_int64(),
               story.at("output_tokens").as_int64(), story.at("preemptions").as_int64(),
               reason == nullptr ? "goes on at the end of the log"
                                 : "ended: " + std::string(reason->as_string()));
    fmt::print("{}", story_text(story));
  }
  return {};
}

}  // namespace

Command add_explain(CLI::App& app) {
  auto flags = std::make_shared<ExplainFlags>();
  set_help(app, {{{"quire explain cmpl-0123456789abcdef --event-log events", "one request"},
                  {"quire explain 17 --event-log events --json", "the 17th, for programs"}}});
  app.add_option("ID", flags->id, "The request: its id (cmpl-...) or its number")
      ->type_name("ID")
      ->required();
  app.add_option(
         "--event-log", flags->event_log,
         "The log's name, as given to --event-log, or one of its files FILE.000001 and so on")
      ->type_name("FILE")
      ->required();
  app.add_flag("--json", flags->json, "Print one JSON object");
  return [flags] { return run_explain(*flags); };
}

}  // namespace quire
