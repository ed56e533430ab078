// Several HTTP requests at once on the calling thread. All of libcurl that fetching a model needs,
// so that nothing else knows that library.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace quire {

// Keys for signing requests to an S3-compatible store (AWS Signature Version 4).
struct AwsSigning {
  std::string access_key;
  std::string secret_key;
  std::string session_token;  // empty: none
  std::string region;
};

struct FetchRequest {
  std::string url;                   // http or https
  std::vector<std::string> headers;  // "Name: value"
  bool head = false;                 // the head of the answer alone
  bool head_by_get = false;          // the same, of a server that answers to GET only
  std::optional<AwsSigning> signing;
};

struct FetchAnswer {
  int status = 0;     // 0: none came
  std::string error;  // then: why, in libcurl's words
  // By name in lower case; of a name that occurs twice, the last. At most 64 KB together.
  std::map<std::string, std::string, std::less<>> headers;
  std::string location;    // where a redirect leads, as a whole address; empty: nowhere
  std::string body;        // of an answer that is no success: its first 64 KB
  double retry_after = 0;  // seconds that the server asks to wait

  std::string_view header(std::string_view name) const;  // empty where it is absent
  bool success() const { return status / 100 == 2; }
};

// Redirects are returned, never followed: the caller decides what the next server is sent.
class Transfers {
 public:
  // Takes the body of a success as it comes; false ends the transfer. `answer` has status and
  // headers.
  using OnBytes = std::function<bool(const FetchAnswer& answer, std::string_view bytes)>;
  using Id = std::uint64_t;

  struct Finished {
    Id id = 0;
    FetchAnswer answer;
    bool complete = false;  // the whole body came
    bool too_long = false;  // of run(): more than `max_bytes` would have come
  };

  // kInternal where libcurl cannot start.
  static Result<Transfers> create();
  Transfers(Transfers&&) noexcept;
  Transfers& operator=(Transfers&&) noexcept;
  ~Transfers();

  // Begins a request, whose body comes while somebody waits.
  Id start(const FetchRequest& request, OnBytes on_bytes);
  // Ends those that run, silently.
  void stop_all();
  // What ended first, or nullopt after `timeout`.
  std::optional<Finished> wait(std::chrono::milliseconds timeout);

  // One request from its start to its end, with a body of at most `max_bytes` in `body`.
  // `cancelled` is asked ten times a second.
  Finished run(const FetchRequest& request, std::size_t max_bytes, std::string& body,
               const std::function<bool()>& cancelled);

 private:
  struct Impl;
  explicit Transfers(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
