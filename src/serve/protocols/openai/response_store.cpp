#include "serve/protocols/openai/response_store.h"

#include <utility>

namespace quire {

void ResponseStore::put(std::string id, StoredResponse response) {
  const std::size_t bytes = id.size() + response.response.size() + response.input_items.size() +
                            response.messages.size() + response.events.size();
  if (bytes > max_bytes_) return;
  const std::lock_guard lock(mutex_);
  if (const auto found = by_id_.find(id); found != by_id_.end()) drop(found->second);
  entries_.push_front(
      {std::move(id), std::make_shared<const StoredResponse>(std::move(response)), bytes});
  by_id_.emplace(entries_.front().id, entries_.begin());
  bytes_ += bytes;
  while (entries_.size() > max_responses_ || bytes_ > max_bytes_) drop(std::prev(entries_.end()));
}

std::shared_ptr<const StoredResponse> ResponseStore::find(std::string_view id) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->response;
}

bool ResponseStore::erase(std::string_view id) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return false;
  drop(found->second);
  return true;
}

std::size_t ResponseStore::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

std::size_t ResponseStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

void ResponseStore::drop(Entries::iterator entry) {
  bytes_ -= entry->bytes;
  by_id_.erase(entry->id);
  entries_.erase(entry);
}

}  // namespace quire
