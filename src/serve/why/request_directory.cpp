#include "serve/why/request_directory.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "serve/requests/request_origin.h"

namespace quire {

std::shared_ptr<RequestDirectory::Entry> RequestDirectory::begin(const RequestOrigin& origin,
                                                                 const GenerateRequest& request,
                                                                 Instant received,
                                                                 Instant submitted) {
  auto entry = std::make_shared<Entry>();
  const std::int64_t n = request.embed ? 1 : std::max<std::int64_t>(1, request.params.n);
  for (std::int64_t i = 0; i < n; ++i) {
    OutputStory& output = entry->outputs_.emplace_back();
    output.index = static_cast<std::int32_t>(i);
    output.num_prompt_tokens = std::ssize(request.prompt_token_ids);
    output.caller = origin.caller;
    output.salted = !request.cache_salt.empty();
    output.received = received;
    output.submitted = submitted;
  }
  entry->num_unfinished_ = entry->outputs_.size();
  entry->external_id_ = origin.external_id;
  entry->caller_ = origin.caller;
  ById by_id;
  by_id.emplace(0, nullptr);
  entry->place_by_id_ = by_id.extract(by_id.begin());
  entry->place_among_ended_.emplace_back();
  const std::lock_guard lock(mutex_);
  by_external_id_.emplace(entry->external_id_, entry);
  return entry;
}

void RequestDirectory::submitted(const std::shared_ptr<Entry>& entry, RequestId request_id) {
  const std::lock_guard lock(mutex_);
  set_id(entry, request_id);
}

void RequestDirectory::set_id(const std::shared_ptr<Entry>& entry, RequestId request_id) {
  if (entry->request_id_ != 0) return;
  entry->request_id_ = request_id;
  for (OutputStory& output : entry->outputs_) {
    output.output_id = request_id + static_cast<RequestId>(output.index);
  }
  entry->place_by_id_.key() = request_id;
  entry->place_by_id_.mapped() = entry;
  by_id_.insert(std::move(entry->place_by_id_));
}

void RequestDirectory::refused(const std::shared_ptr<Entry>& entry) {
  const std::lock_guard lock(mutex_);
  forget(entry);
}

void RequestDirectory::finished(const std::shared_ptr<Entry>& entry, const RequestOutput& output,
                                Instant told) {
  EndSinks waiting;
  {
    const std::lock_guard lock(mutex_);
    waiting = end(entry, output, told);
  }
  if (waiting.empty()) return;
  const auto& story = entry->outputs_[static_cast<std::size_t>(output.index)];  // as it stays
  for (const auto& [index, tell] : waiting) tell(story);
}

// Who waits for this end.
RequestDirectory::EndSinks RequestDirectory::end(const std::shared_ptr<Entry>& entry,
                                                 const RequestOutput& output, Instant told) {
  set_id(entry, output.request_id);
  OutputStory& story = entry->outputs_.at(static_cast<std::size_t>(output.index));
  // Its last piece comes again, as an error, where somebody lacked memory for it.
  const bool again = !story.finish_reason.empty();
  story.finish_reason = finish_name(output);
  story.num_output_tokens = output.num_output_tokens;
  story.num_preemptions = output.metrics.num_preemptions;
  story.step_time = output.metrics.step_time;
  story.told = told;
  story.timeline = output.timeline;
  story.constraint = output.constraint;
  story.drafts = DraftsStory(output);
  if (output.timeline != nullptr) {
    story.arrival = output.metrics.arrival;
    story.end = output.metrics.finished;
  }
  EndSinks waiting;
  while (auto each = entry->waiting_.extract(output.index)) waiting.insert(std::move(each));
  if (again || --entry->num_unfinished_ > 0) return waiting;
  entry->place_among_ended_.front() = entry;
  ended_.splice(ended_.end(), entry->place_among_ended_);
  num_ended_outputs_ += entry->outputs_.size();
  while (ended_.size() > 1 &&
         (ended_.size() > kMaxFinished || num_ended_outputs_ > kMaxFinishedOutputs)) {
    forget_oldest();
  }
  return waiting;
}

void RequestDirectory::forget_oldest() {
  const std::shared_ptr<Entry> oldest = std::move(ended_.front());
  ended_.pop_front();
  num_ended_outputs_ -= oldest->outputs_.size();
  forget(oldest);
}

void RequestDirectory::forget(const std::shared_ptr<Entry>& entry) {
  const auto [begin, end] = by_external_id_.equal_range(entry->external_id_);
  for (auto it = begin; it != end; ++it) {
    if (it->second != entry) continue;
    by_external_id_.erase(it);
    break;
  }
  by_id_.erase(entry->request_id_);
}

RequestDirectory::Entry* RequestDirectory::find_output(RequestId output_id) const {
  const auto after = by_id_.upper_bound(output_id);
  if (after == by_id_.begin()) return nullptr;
  const auto& [request_id, entry] = *std::prev(after);
  return output_id - request_id < entry->outputs_.size() ? entry.get() : nullptr;
}

std::vector<OutputStory> RequestDirectory::find(std::string_view external_id) const {
  std::vector<std::shared_ptr<Entry>> entries;
  std::vector<OutputStory> outputs;
  const std::lock_guard lock(mutex_);
  const auto [begin, end] = by_external_id_.equal_range(std::string(external_id));
  for (auto it = begin; it != end; ++it) entries.push_back(it->second);
  std::ranges::sort(entries, {}, [](const auto& entry) { return entry->request_id_; });
  for (const auto& entry : entries) {
    outputs.insert(outputs.end(), entry->outputs_.begin(), entry->outputs_.end());
  }
  return outputs;
}

void RequestDirectory::when_ended(RequestId output_id, EndSink tell) {
  std::optional<OutputStory> story;
  {
    const std::lock_guard lock(mutex_);
    if (Entry* const entry = find_output(output_id)) {
      story = entry->outputs_[static_cast<std::size_t>(output_id - entry->request_id_)];
      if (story->finish_reason.empty()) {
        entry->waiting_.emplace(story->index, std::move(tell));
        return;
      }
    }
  }
  tell(story);
}

std::string RequestDirectory::name_for(std::string_view caller, RequestId output_id) const {
  {
    const std::lock_guard lock(mutex_);
    const Entry* const entry = find_output(output_id);
    if (entry == nullptr) return "another request";
    if (entry->caller_ != caller) return "another key";
  }
  return name(output_id);
}

std::string RequestDirectory::name(RequestId output_id) const {
  const std::lock_guard lock(mutex_);
  const Entry* const entry = find_output(output_id);
  if (entry == nullptr) return fmt::format("{}", output_id);
  return output_name(entry->external_id_, std::ssize(entry->outputs_),
                     static_cast<std::int32_t>(output_id - entry->request_id_));
}

}  // namespace quire
