#include "serve/why/request_directory.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

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
  set_id(*entry, request_id);
}

void RequestDirectory::set_id(Entry& entry, RequestId request_id) {
  if (entry.request_id_ != 0) return;
  entry.request_id_ = request_id;
  for (OutputStory& output : entry.outputs_) {
    output.output_id = request_id + static_cast<RequestId>(output.index);
    names_[output.output_id] = entry.outputs_.size() == 1
                                   ? entry.external_id_
                                   : fmt::format("{}#{}", entry.external_id_, output.index);
  }
}

void RequestDirectory::refused(const std::shared_ptr<Entry>& entry) {
  const std::lock_guard lock(mutex_);
  forget(entry);
}

void RequestDirectory::finished(const std::shared_ptr<Entry>& entry, const RequestOutput& output,
                                Instant told) {
  const std::lock_guard lock(mutex_);
  set_id(*entry, output.request_id);
  OutputStory& story = entry->outputs_.at(static_cast<std::size_t>(output.index));
  story.finish_reason = output.finish_reason ? finish_reason_name(*output.finish_reason) : "error";
  story.num_output_tokens = output.num_output_tokens;
  story.num_preemptions = output.metrics.num_preemptions;
  story.told = told;
  story.timeline = output.timeline;
  if (output.timeline != nullptr) {
    story.arrival = output.metrics.arrival;
    story.end = output.metrics.finished;
  }
  if (--entry->num_unfinished_ > 0) return;
  ended_.push_back(entry);
  if (ended_.size() <= kMaxFinished) return;
  const std::shared_ptr<Entry> oldest = std::move(ended_.front());
  ended_.pop_front();
  forget(oldest);
}

void RequestDirectory::forget(const std::shared_ptr<Entry>& entry) {
  const auto [begin, end] = by_external_id_.equal_range(entry->external_id_);
  for (auto it = begin; it != end; ++it) {
    if (it->second != entry) continue;
    by_external_id_.erase(it);
    break;
  }
  for (const OutputStory& output : entry->outputs_) names_.erase(output.output_id);
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

std::string RequestDirectory::name(RequestId output_id) const {
  const std::lock_guard lock(mutex_);
  const auto it = names_.find(output_id);
  return it == names_.end() ? fmt::format("{}", output_id) : it->second;
}

}  // namespace quire
