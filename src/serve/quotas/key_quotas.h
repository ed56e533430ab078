// How much each API key may ask for: requests and tokens a minute, requests at a time.
//
// What is asked for a minute is a bucket for each key (a token bucket): it is full at first, has
// a minute's worth, and fills at that pace. A request is let in while the bucket is not empty, and
// is charged what it really uses: its prompt when the engine gets it, its output when that has
// ended. So nothing has to be guessed, a request larger than what is left is not shut out for ever,
// and what it used beyond the bucket's content is paid back by the time that the next one waits.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

namespace quire {

// Of a key; nullopt: as many as it likes.
struct QuotaLimits {
  std::optional<std::int64_t> requests_per_minute;
  std::optional<std::int64_t> tokens_per_minute;  // of prompts, cached ones too, and of outputs
  std::optional<std::int64_t> parallel_requests;

  bool any() const { return requests_per_minute || tokens_per_minute || parallel_requests; }
  bool operator==(const QuotaLimits&) const = default;
};

// By HttpRequest::caller.
using CallerLimits = std::unordered_map<std::string, QuotaLimits>;

// Has at most one minute's worth, `limit`. May be overdrawn.
class QuotaBucket {
 public:
  using Clock = std::chrono::steady_clock;

  QuotaBucket(std::int64_t limit, Clock::time_point now)
      : limit_(static_cast<double>(limit)), content_(limit_), filled_(now) {}

  double content(Clock::time_point now);
  void take(double amount, Clock::time_point now);
  // Seconds until it has `amount`, which is at most the limit: 0 if it does.
  double seconds_until(double amount, Clock::time_point now);

 private:
  double limit_;
  double content_;
  Clock::time_point filled_;
};

// Why a request is not let in.
struct QuotaRefusal {
  std::string message;
  std::int64_t retry_after_s = 1;  // until a request like it would be let in, as far as is known
};

// What is left of a key's limits.
struct QuotaStanding {
  std::int64_t requests = 0;
  double requests_full_s = 0;  // until the bucket is full again
  std::int64_t tokens = 0;
  double tokens_full_s = 0;
};

// Any thread. `caller` is HttpRequest::caller; where no keys are needed all are one.
class KeyQuotas {
 public:
  using Clock = QuotaBucket::Clock;

  // Of each caller, unless it has its own.
  explicit KeyQuotas(const QuotaLimits& limits, CallerLimits own = {})
      : limits_(limits), own_(std::move(own)) {}

  const QuotaLimits& limits_of(const std::string& caller) const;
  bool any() const;  // somebody has a limit

  // Lets a request in, which is then in flight until leave(), or says why not.
  std::optional<QuotaRefusal> enter(const std::string& caller, Clock::time_point now);
  void leave(const std::string& caller);
  // Charges for tokens, or, below zero, gives back.
  void charge(const std::string& caller, std::int64_t num_tokens, Clock::time_point now);

  QuotaStanding standing(const std::string& caller, Clock::time_point now);

 private:
  struct Account {
    QuotaBucket requests;
    QuotaBucket tokens;
    std::int64_t num_in_flight = 0;
  };

  Account& account(const std::string& caller, Clock::time_point now);  // with the mutex held

  const QuotaLimits limits_;
  const CallerLimits own_;
  std::mutex mutex_;
  std::unordered_map<std::string, Account> accounts_;  // one for each key at most
};

}  // namespace quire
