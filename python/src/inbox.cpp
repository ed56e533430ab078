#include "inbox.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <sys/eventfd.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "core/finish_reason.h"

namespace quire::python {

void LogprobColumns::append(const PositionLogprobs& position) {
  if (token_ids.empty()) width = position.top.size();
  token_ids.push_back(position.token.token_id);
  logprobs.push_back(position.token.logprob);
  ranks.push_back(position.token.rank);
  for (std::size_t i = 0; i < width; ++i) {
    const bool there = i < position.top.size();
    top_ids.push_back(there ? position.top[i].token_id : kNoToken);
    top_logprobs.push_back(there ? position.top[i].logprob
                                 : -std::numeric_limits<float>::infinity());
    top_ranks.push_back(there ? position.top[i].rank : 0);
  }
}

void RequestRecord::append(const RequestOutput& piece) {
  request_id = piece.request_id;
  auto found = std::ranges::find(
      outputs, piece.index, [](const std::shared_ptr<OutputRecord>& each) { return each->index; });
  if (found == outputs.end()) {
    auto output = std::make_shared<OutputRecord>();
    output->index = piece.index;
    found = outputs.insert(outputs.end(), std::move(output));
  }
  OutputRecord& output = **found;
  output.text += piece.text;
  output.token_ids.insert(output.token_ids.end(), piece.token_ids.begin(), piece.token_ids.end());
  output.forced_tokens.insert(output.forced_tokens.end(), piece.forced_tokens.begin(),
                              piece.forced_tokens.end());
  for (const PositionLogprobs& position : piece.logprobs) {
    // Those of requests that ask for none have tokens alone.
    if (position.token.rank != 0) output.logprobs.append(position);
  }
  for (const PositionLogprobs& position : piece.prompt_logprobs) prompt_logprobs.append(position);
  output.cumulative_logprob = piece.cumulative_logprob;
  if (!piece.embedding.empty()) embedding = piece.embedding;
  num_prompt_tokens = piece.num_prompt_tokens;
  metrics = piece.metrics;
  if (piece.finished) {
    output.finished = true;
    step_time += piece.metrics.step_time;
    if (piece.finish_reason) output.finish_reason = finish_reason_name(*piece.finish_reason);
    output.stop_string = piece.stop_string;
    output.stop_token_id = piece.stop_token_id;
    // The first output computes the prompt; the others take its blocks.
    if (piece.index == 0) num_cached_tokens = piece.num_cached_tokens;
    if (error.ok()) error = piece.error;
  }
  finished = piece.request_finished;
}

Result<std::shared_ptr<Inbox>> Inbox::create(Delivery delivery, bool with_descriptor) {
  int fd = -1;
  if (with_descriptor) {
    fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) {
      return Status::io_error(fmt::format("no descriptor for an event loop: {}",
                                          std::generic_category().message(errno)),
                              "raise the limit of open files (ulimit -n)");
    }
  }
  return std::shared_ptr<Inbox>(new Inbox(delivery, fd));
}

Inbox::~Inbox() {
  if (fd_ >= 0) ::close(fd_);
}

OutputSink Inbox::sink(std::uint64_t key) {
  return [self = shared_from_this(), key](const RequestOutput& piece) { self->put(key, piece); };
}

void Inbox::put(std::uint64_t key, const RequestOutput& piece) {
  const std::lock_guard lock(mutex_);
  auto [place, is_new] = open_.try_emplace(key);
  if (is_new) {
    place->second = std::make_shared<RequestRecord>();
    place->second->key = key;
  }
  place->second->append(piece);
  // Of pieces the first makes it ready; those that follow before it is taken are added to it.
  const bool ready = delivery_ == Delivery::kPieces ? is_new : piece.request_finished;
  if (ready) {
    ready_.push_back(place->second);
    if (ready_.size() == 1 && fd_ >= 0) {
      const std::uint64_t one = 1;
      // Can fail only where the counter is about to overflow, and then it is readable anyway.
      [[maybe_unused]] const auto written = ::write(fd_, &one, sizeof(one));
    }
    changed_.notify_all();
  }
  if (delivery_ == Delivery::kWhole && piece.request_finished) open_.erase(place);
}

std::vector<std::shared_ptr<RequestRecord>> Inbox::take(Duration timeout) {
  std::unique_lock lock(mutex_);
  if (timeout > Duration::zero()) {
    changed_.wait_for(lock, timeout, [this] { return !ready_.empty(); });
  }
  if (fd_ >= 0 && !ready_.empty()) {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto read = ::read(fd_, &count, sizeof(count));
  }
  if (delivery_ == Delivery::kPieces) open_.clear();
  return std::exchange(ready_, {});
}

}  // namespace quire::python
