#include "core/sampling_params.h"

#include <cmath>

#include <fmt/format.h>

namespace quire {

Status SamplingParams::validate(std::int64_t vocab_size, std::int64_t max_logprobs) const {
  (void)max_logprobs;
  const auto broken = [](std::string_view field, auto value, std::string_view rule) {
    return Status::invalid_argument(fmt::format("{}: {} is not {}", field, value, rule));
  };
  if (!std::isfinite(temperature) || temperature < 0) {
    return broken("temperature", temperature, "a number >= 0");
  }
  if (top_k < -1) return broken("top_k", top_k, "an integer >= -1 (0 and -1: all tokens)");
  if (!(top_p > 0 && top_p <= 1)) return broken("top_p", top_p, "in (0, 1]");
  if (max_tokens < 1) return broken("max_tokens", max_tokens, "an integer >= 1");
  if (std::ssize(stop) > kMaxStopStrings) {
    return broken("stop", fmt::format("a list of {} strings", stop.size()),
                  fmt::format("a list of at most {}", kMaxStopStrings));
  }
  for (std::size_t i = 0; i < stop.size(); ++i) {
    if (stop[i].empty() || stop[i].size() > kMaxStopBytes) {
      return broken(fmt::format("stop[{}]", i), fmt::format("a string of {} bytes", stop[i].size()),
                    fmt::format("a string of 1 to {} bytes", kMaxStopBytes));
    }
  }
  if (std::ssize(stop_token_ids) > kMaxStopTokenIds) {
    return broken("stop_token_ids", fmt::format("a list of {} ids", stop_token_ids.size()),
                  fmt::format("a list of at most {}", kMaxStopTokenIds));
  }
  for (std::size_t i = 0; i < stop_token_ids.size(); ++i) {
    if (stop_token_ids[i] < 0 || stop_token_ids[i] >= vocab_size) {
      return broken(fmt::format("stop_token_ids[{}]", i), stop_token_ids[i],
                    fmt::format("a token id in [0, {})", vocab_size));
    }
  }
  return {};
}

}  // namespace quire
