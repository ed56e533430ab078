// Where the outputs of requests wait for Python. The engine's output thread puts them in and never
// waits for an interpreter; whoever takes them out gets, for each request, all that has come since.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "engine/api.h"

namespace quire::python {

// Tokens with their log probabilities, by columns, so that arrays can show them as they lie here.
struct LogprobColumns {
  static constexpr TokenId kNoToken = -1;

  std::vector<TokenId> token_ids;
  std::vector<float> logprobs;      // natural
  std::vector<std::int32_t> ranks;  // 1: the most probable; 0: was not asked for
  // Row i has the `width` most probable tokens at position i, best first. Where the vocabulary has
  // fewer, kNoToken with minus infinity follows.
  std::size_t width = 0;
  std::vector<TokenId> top_ids;
  std::vector<float> top_logprobs;
  std::vector<std::int32_t> top_ranks;

  bool empty() const { return token_ids.empty(); }
  void append(const PositionLogprobs& position);
};

// What has come of one output.
struct OutputRecord {
  std::int32_t index = 0;
  std::string text;
  std::vector<TokenId> token_ids;
  LogprobColumns logprobs;
  std::vector<bool> forced_tokens;  // empty: not asked for
  double cumulative_logprob = 0;
  bool finished = false;
  std::string_view finish_reason;  // "stop", "length", "abort"; empty: it goes on, or has failed
  std::optional<std::string> stop_string;
  std::optional<TokenId> stop_token_id;
};

// What has come of one request.
struct RequestRecord {
  std::uint64_t key = 0;                               // its sender's
  RequestId request_id = 0;                            // the engine's
  std::vector<std::shared_ptr<OutputRecord>> outputs;  // those of which something has come
  LogprobColumns prompt_logprobs;
  std::vector<float> embedding;
  std::int64_t num_prompt_tokens = 0;
  std::int64_t num_cached_tokens = 0;
  RequestMetrics metrics;
  Duration step_time{};   // of the outputs that have ended since the last record
  bool finished = false;  // and nothing more will come
  Status error;           // the first that an output ended with

  void append(const RequestOutput& piece);
};

class Inbox : public std::enable_shared_from_this<Inbox> {
 public:
  enum class Delivery {
    kWhole,   // requests when they have ended
    kPieces,  // requests of which something has come
  };

  // With `with_descriptor` fd() can be waited for in an event loop. kIoError.
  static Result<std::shared_ptr<Inbox>> create(Delivery delivery, bool with_descriptor);
  ~Inbox();
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  // Where the engine puts the outputs of a request; it keeps the inbox alive.
  OutputSink sink(std::uint64_t key);

  // What has come, in the order in which it began to; waits up to `timeout` for something. Needs no
  // GIL, and should not hold it.
  std::vector<std::shared_ptr<RequestRecord>> take(Duration timeout);

  // Readable while there is something to take; -1 without one.
  int fd() const { return fd_; }

 private:
  Inbox(Delivery delivery, int fd) : delivery_(delivery), fd_(fd) {}
  void put(std::uint64_t key, const RequestOutput& piece);

  const Delivery delivery_;
  const int fd_;  // an eventfd
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<std::uint64_t, std::shared_ptr<RequestRecord>> open_;  // not taken yet
  std::vector<std::shared_ptr<RequestRecord>> ready_;
};

}  // namespace quire::python
