#include "serve/quotas/key_quotas.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

namespace quire {
namespace {

constexpr double kSecondsAMinute = 60;

QuotaRefusal refusal(std::string_view flag, std::int64_t limit, std::string_view what,
                     double wait_s) {
  const auto seconds = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(wait_s)));
  return {.message = fmt::format("this key's limit of {} {} ({}) is used up; try again in {} s",
                                 limit, what, flag, seconds),
          .retry_after_s = seconds};
}

}  // namespace

double QuotaBucket::content(Clock::time_point now) {
  const double passed = std::chrono::duration<double>(now - filled_).count();
  if (passed > 0) {
    content_ = std::min(limit_, content_ + passed * limit_ / kSecondsAMinute);
    filled_ = now;
  }
  return content_;
}

void QuotaBucket::take(double amount, Clock::time_point now) {
  content_ = std::min(limit_, content(now) - amount);
}

double QuotaBucket::seconds_until(double amount, Clock::time_point now) {
  return std::max(0.0, amount - content(now)) * kSecondsAMinute / limit_;
}

const QuotaLimits& KeyQuotas::limits_of(const std::string& caller) const {
  const auto found = own_.find(caller);
  return found == own_.end() ? limits_ : found->second;
}

bool KeyQuotas::any() const {
  return limits_.any() ||
         std::ranges::any_of(own_, [](const auto& each) { return each.second.any(); });
}

KeyQuotas::Account& KeyQuotas::account(const std::string& caller, Clock::time_point now) {
  const auto found = accounts_.find(caller);
  if (found != accounts_.end()) return found->second;
  const QuotaLimits& limits = limits_of(caller);
  const Account full = {.requests = {limits.requests_per_minute.value_or(1), now},
                        .tokens = {limits.tokens_per_minute.value_or(1), now}};
  return accounts_.emplace(caller, full).first->second;
}

std::optional<QuotaRefusal> KeyQuotas::enter(const std::string& caller, Clock::time_point now) {
  const QuotaLimits& limits = limits_of(caller);
  const std::lock_guard lock(mutex_);
  Account& account = this->account(caller, now);
  if (limits.parallel_requests && account.num_in_flight >= *limits.parallel_requests) {
    return refusal("--max-parallel-requests", *limits.parallel_requests, "requests at a time", 1);
  }
  if (limits.tokens_per_minute && account.tokens.content(now) <= 0) {
    return refusal("--tpm-limit", *limits.tokens_per_minute, "tokens a minute",
                   account.tokens.seconds_until(0, now));
  }
  if (limits.requests_per_minute) {
    if (account.requests.content(now) < 1) {
      return refusal("--rpm-limit", *limits.requests_per_minute, "requests a minute",
                     account.requests.seconds_until(1, now));
    }
    account.requests.take(1, now);
  }
  ++account.num_in_flight;
  return std::nullopt;
}

void KeyQuotas::leave(const std::string& caller) {
  const std::lock_guard lock(mutex_);
  const auto found = accounts_.find(caller);
  if (found != accounts_.end()) --found->second.num_in_flight;
}

void KeyQuotas::charge(const std::string& caller, std::int64_t num_tokens, Clock::time_point now) {
  if (!limits_of(caller).tokens_per_minute) return;
  const std::lock_guard lock(mutex_);
  account(caller, now).tokens.take(static_cast<double>(num_tokens), now);
}

QuotaStanding KeyQuotas::standing(const std::string& caller, Clock::time_point now) {
  const QuotaLimits& limits = limits_of(caller);
  const std::lock_guard lock(mutex_);
  Account& account = this->account(caller, now);
  const auto whole = [](double content) {
    return static_cast<std::int64_t>(std::floor(std::max(0.0, content)));
  };
  const auto full = [&](QuotaBucket& bucket, const std::optional<std::int64_t>& limit) {
    return bucket.seconds_until(static_cast<double>(limit.value_or(1)), now);
  };
  return {.requests = whole(account.requests.content(now)),
          .requests_full_s = full(account.requests, limits.requests_per_minute),
          .tokens = whole(account.tokens.content(now)),
          .tokens_full_s = full(account.tokens, limits.tokens_per_minute)};
}

}  // namespace quire
