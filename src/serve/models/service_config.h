// Settings of a server that are not about its connections.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "serve/quotas/key_quotas.h"
#include "text/dialects/dialect.h"

namespace quire {

// Whose cached prefixes a request may find.
enum class PrefixCacheScope : std::uint8_t {
  kKey,     // of requests with the same API key
  kGlobal,  // of all
};

struct ServiceConfig {
  std::vector<std::string> served_model_names;  // at least one; the first is shown
  // Requests may name the model so, too, but no answer does: its path on this machine.
  std::vector<std::string> accepted_model_names = {};
  // And by an id of the Hugging Face hub whose last part is the first name, up to a dot in it.
  bool accept_hub_ids = false;
  bool strict_fields = false;                // unknown request fields are refused
  bool trust_request_chat_template = false;  // requests may bring a chat template
  bool log_requests = true;
  PrefixCacheScope prefix_cache_scope = PrefixCacheScope::kKey;
  DialectChoice dialect = {};  // how the model writes calls and reasoning
  std::int64_t max_logprobs = 20;
  std::uint64_t max_response_bytes = 256ULL << 20;  // that an answer as a whole may have
  std::uint64_t max_unsent_bytes = 1ULL << 20;      // of a stream, as its connection has it
  std::int64_t created = 0;  // Unix time of the model's start, for /v1/models
  std::chrono::milliseconds heartbeat_timeout{10'000};
  // A request that would wait longer for its turn is refused.
  std::optional<double> max_ttft_s = {};
  QuotaLimits quotas = {};       // of each API key
  CallerLimits key_quotas = {};  // of those that have their own
  // In US dollars, of what the model runs on. Requests are told their cost then.
  std::optional<double> price_per_hour = {};
};

}  // namespace quire
