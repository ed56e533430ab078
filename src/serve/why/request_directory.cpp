#include "serve/why/request_directory.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "serve/requests/request_origin.h"

namespace quire {

std::shared_ptr<RequestDirectory::Entry> RequestDirectory::begin(std::string external_id,
                                                                 const GenerateRequest& request,
                                                                 Instant received,
                                                                 Instant submitted) {
  auto entry = std::make_shared<Entry>();
  const std::int64_t n = request.embed ? 1 : std::max<std::int64_t>(1, request.params.n);
  for (std::int64_t i = 0; i < n; ++i) {
    OutputStory& output = entry->outputs_.emplace_back();
    output.index = static_cast<std::int32_t>(i);
    output.num_prompt_tokens = std::ssize(request.prompt_token_ids);
    output.received = received;
    output.submitted = submitted;
  }
  entry->num_unfinished_ = entry->outputs_.size();
  entry->external_id_ = std::move(external_id);
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
    by_output_id_[output.output_id] = entry;
  }
}

void RequestDirectory::refused(const std::shared_ptr<Entry>& entry) {
  const std::lock_guard lock(mutex_);
  forget(entry);
}

void RequestDirectory::finished(const std::shared_ptr<Entry>& entry, const RequestOutput& output,
                                Instant told) {
  std::vector<EndSink> waiting;
  {
    const std::lock_guard lock(mutex_);
    waiting = end(entry, output, told);
  }
  if (waiting.empty()) return;
  const auto& story = entry->outputs_[static_cast<std::size_t>(output.index)];  // as it stays
  for (const EndSink& tell : waiting) tell(story);
}

// Who waits for this end.
std::vector<RequestDirectory::EndSink> RequestDirectory::end(const std::shared_ptr<Entry>& entry,
                                                             const RequestOutput& output,
                                                             Instant told) {
  set_id(entry, output.request_id);
  OutputStory& story = entry->outputs_.at(static_cast<std::size_t>(output.index));
  story.finish_reason = finish_name(output);
  story.num_output_tokens = output.num_output_tokens;
  story.num_preemptions = output.metrics.num_preemptions;
  story.told = told;
  story.timeline = output.timeline;
  if (output.timeline != nullptr) {
    story.arrival = output.metrics.arrival;
    story.end = output.metrics.finished;
  }
  std::vector<EndSink> waiting;
  const auto [first, last] = entry->waiting_.equal_range(output.index);
  for (auto it = first; it != last; ++it) waiting.push_back(std::move(it->second));
  entry->waiting_.erase(first, last);
  if (--entry->num_unfinished_ > 0) return waiting;
  ended_.push_back(entry);
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
  for (const OutputStory& output : entry->outputs_) by_output_id_.erase(output.output_id);
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
    const auto it = by_output_id_.find(output_id);
    if (it != by_output_id_.end()) {
      Entry& entry = *it->second;
      story = entry.outputs_[static_cast<std::size_t>(output_id - entry.request_id_)];
      if (story->finish_reason.empty()) {
        entry.waiting_.emplace(story->index, std::move(tell));
        return;
      }
    }
  }
  tell(story);
}

std::string RequestDirectory::name(RequestId output_id) const {
  const std::lock_guard lock(mutex_);
  const auto it = by_output_id_.find(output_id);
  if (it == by_output_id_.end()) return fmt::format("{}", output_id);
  const Entry& entry = *it->second;
  return output_name(entry.external_id_, std::ssize(entry.outputs_),
                     static_cast<std::int32_t>(output_id - entry.request_id_));
}

}  // namespace quire
