// Who is who among the requests of late: those that run and the last ones that ended, by the id
// under which their clients know them, with what is known of their stories. Bounded by what the
// engine accepts at once, and by the two numbers below for those that ended. Any thread.
//
// Once a request has begun no memory is needed for it: the engine may have it, and its story
// has an end whatever happens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "serve/requests/request_observer.h"
#include "serve/why/request_story.h"

namespace quire {

class RequestDirectory {
 public:
  // What is kept of requests that ended (one for each prompt): so many, and fewer where they have
  // more outputs than that; but always the newest.
  static constexpr std::size_t kMaxFinished = 4096;
  static constexpr std::size_t kMaxFinishedOutputs = 16'384;

  // One request to the engine, with its n outputs.
  class Entry;
  // Nothing where the output was forgotten.
  using EndSink = std::function<void(const std::optional<OutputStory>& story)>;

  // A request is about to be queued.
  std::shared_ptr<Entry> begin(const RequestOrigin& origin, const GenerateRequest& request,
                               Instant received, Instant submitted);
  // The engine has accepted it under this id; or refused it, and it is forgotten.
  void submitted(const std::shared_ptr<Entry>& entry, RequestId request_id);
  void refused(const std::shared_ptr<Entry>& entry);
  // One of its outputs has ended, and its last piece was handed on.
  void finished(const std::shared_ptr<Entry>& entry, const RequestOutput& output, Instant told);

  // The outputs of all requests under this id, as far as they are known here: of those that go on,
  // the scheduler knows more.
  std::vector<OutputStory> find(std::string_view external_id) const;
  // Tells the whole story of an output that has left the scheduler: at once, or as soon as
  // finished() is called for it, on that thread.
  void when_ended(RequestId output_id, EndSink tell);
  // What the client of one of the engine's outputs calls it ("cmpl-1", for output 2 of several
  // "cmpl-1#2"), or its number where that is forgotten.
  std::string name(RequestId output_id) const;
  // The same where it is this caller's own; else "another key", or "another request" where it is
  // not known any more whose it was.
  std::string name_for(std::string_view caller, RequestId output_id) const;

 private:
  using Entries = std::list<std::shared_ptr<Entry>>;
  // By the engine's id of the request, whose outputs have the ids that follow.
  using ById = std::map<RequestId, std::shared_ptr<Entry>>;
  using EndSinks = std::multimap<std::int32_t, EndSink>;  // by the output's index

  void set_id(const std::shared_ptr<Entry>& entry, RequestId request_id);
  EndSinks end(const std::shared_ptr<Entry>& entry, const RequestOutput& output, Instant told);
  Entry* find_output(RequestId output_id) const;  // null: forgotten
  void forget_oldest();
  void forget(const std::shared_ptr<Entry>& entry);

  mutable std::mutex mutex_;
  std::unordered_multimap<std::string, std::shared_ptr<Entry>> by_external_id_;
  ById by_id_;
  Entries ended_;                      // the oldest first
  std::size_t num_ended_outputs_ = 0;  // theirs
};

class RequestDirectory::Entry {
 private:
  friend RequestDirectory;
  std::string external_id_;
  std::string caller_;
  RequestId request_id_ = 0;  // 0: not known yet
  std::size_t num_unfinished_ = 0;
  std::vector<OutputStory> outputs_;
  EndSinks waiting_;  // for the end of an output
  // Its places in the directory's lists, until it takes them.
  ById::node_type place_by_id_;
  Entries place_among_ended_;
};

}  // namespace quire
