// The responses that may be asked for again, or be continued by previous_response_id. In memory and
// bounded: beyond max_responses, or max_bytes of JSON text in all, the least recently used ones go.
// A response larger than the whole store is not kept.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace quire {

// JSON texts.
struct StoredResponse {
  std::string response;     // the Response object
  std::string input_items;  // an array: what it was asked with
  std::string messages;     // an array: the conversation up to and with its output
  // Its events as they came, of a response in the background; empty: they are made from it.
  std::string events = {};
  bool events_kept = true;  // false: there were too many of them
};

class ResponseStore {
 public:
  static constexpr std::size_t kMaxResponses = 1000;
  static constexpr std::size_t kMaxBytes = 64U << 20;

  explicit ResponseStore(std::size_t max_responses = kMaxResponses,
                         std::size_t max_bytes = kMaxBytes)
      : max_responses_(max_responses), max_bytes_(max_bytes) {}

  // All of these: any thread. An id that is there already is replaced.
  void put(std::string id, StoredResponse response);
  std::shared_ptr<const StoredResponse> find(std::string_view id);  // null if it is not there
  bool erase(std::string_view id);

  std::size_t size() const;
  std::size_t bytes() const;

 private:
  struct Entry {
    std::string id;
    std::shared_ptr<const StoredResponse> response;
    std::size_t bytes = 0;
  };
  using Entries = std::list<Entry>;
  void drop(Entries::iterator entry);

  std::size_t max_responses_;
  std::size_t max_bytes_;
  mutable std::mutex mutex_;
  Entries entries_;                                                // the least recently used last
  std::unordered_map<std::string_view, Entries::iterator> by_id_;  // names of entries_
  std::size_t bytes_ = 0;
};

}  // namespace quire
