#include "core/sampling_params.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace quire {
namespace {

template <typename Value>
Status out_of_rule(std::string_view field, const Value& value, std::string_view rule) {
  return Status::invalid_argument(fmt::format("{}: {} is not {}", field, value, rule));
}

// NaN is in no range.
Status check_range(std::string_view field, double value, double low, double high,
                   std::string_view rule) {
  if (value >= low && value <= high) return {};
  return out_of_rule(field, value, rule);
}

Status check_count(std::string_view field, std::size_t size, std::int64_t most,
                   std::string_view what) {
  if (static_cast<std::int64_t>(size) <= most) return {};
  return out_of_rule(field, fmt::format("a list of {} {}", size, what),
                     fmt::format("a list of at most {}", most));
}

Status check_strings(std::string_view field, const std::vector<std::string>& strings,
                     std::int64_t most) {
  QUIRE_RETURN_IF_ERROR(check_count(field, strings.size(), most, "strings"));
  for (std::size_t i = 0; i < strings.size(); ++i) {
    const std::size_t size = strings[i].size();
    if (size >= 1 && size <= SamplingParams::kMaxStopBytes) continue;
    return out_of_rule(fmt::format("{}[{}]", field, i), fmt::format("a string of {} bytes", size),
                       fmt::format("a string of 1 to {} bytes", SamplingParams::kMaxStopBytes));
  }
  return {};
}

Status check_id(std::string_view field, TokenId id, std::int64_t vocab_size) {
  if (id >= 0 && id < vocab_size) return {};
  return out_of_rule(field, id, fmt::format("a token id in [0, {})", vocab_size));
}

Status check_ids(std::string_view field, const std::vector<TokenId>& ids, std::int64_t most,
                 std::int64_t vocab_size) {
  QUIRE_RETURN_IF_ERROR(check_count(field, ids.size(), most, "ids"));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab_size) continue;  // a name costs more than all the rest
    return check_id(fmt::format("{}[{}]", field, i), ids[i], vocab_size);
  }
  return {};
}

Status check_logprobs(std::string_view field, const std::optional<std::int64_t>& value,
                      std::int64_t max_logprobs) {
  if (!value || (*value >= 0 && *value <= max_logprobs)) return {};
  return Status::invalid_argument(
      fmt::format("{}: {} is not an integer from 0 to {}", field, *value, max_logprobs),
      "--max-logprobs sets the limit");
}

Status check_logit_bias(const std::vector<LogitBias>& biases, std::int64_t vocab_size) {
  QUIRE_RETURN_IF_ERROR(
      check_count("logit_bias", biases.size(), SamplingParams::kMaxLogitBiases, "entries"));
  std::vector<TokenId> ids;
  for (const LogitBias& each : biases) {
    QUIRE_RETURN_IF_ERROR(check_id("logit_bias", each.token_id, vocab_size));
    QUIRE_RETURN_IF_ERROR(check_range(fmt::format("logit_bias[{}]", each.token_id),
                                      static_cast<double>(each.bias), -100, 100, "in [-100, 100]"));
    ids.push_back(each.token_id);
  }
  std::ranges::sort(ids);
  const auto twice = std::ranges::adjacent_find(ids);
  if (twice == ids.end()) return {};
  return Status::invalid_argument(
      fmt::format("logit_bias: token id {} stands there twice", *twice));
}

}  // namespace

Status SamplingParams::validate(std::int64_t vocab_size, std::int64_t max_logprobs) const {
  if (n < 1 || n > kMaxN) return out_of_rule("n", n, fmt::format("an integer from 1 to {}", kMaxN));
  if (!(temperature >= 0 && temperature <= kMaxTemperature)) {
    return out_of_rule("temperature", temperature,
                       fmt::format("a number in [0, {}]", kMaxTemperature));
  }
  if (top_k < -1) return out_of_rule("top_k", top_k, "an integer >= -1 (0 and -1: all tokens)");
  if (!(top_p > 0 && top_p <= 1)) return out_of_rule("top_p", top_p, "in (0, 1]");
  QUIRE_RETURN_IF_ERROR(check_range("min_p", min_p, 0, 1, "in [0, 1]"));
  if (!std::isfinite(repetition_penalty) || repetition_penalty <= 0) {
    return out_of_rule("repetition_penalty", repetition_penalty, "a number > 0");
  }
  QUIRE_RETURN_IF_ERROR(check_range("presence_penalty", presence_penalty, -2, 2, "in [-2, 2]"));
  QUIRE_RETURN_IF_ERROR(check_range("frequency_penalty", frequency_penalty, -2, 2, "in [-2, 2]"));
  if (max_tokens < 1) return out_of_rule("max_tokens", max_tokens, "an integer >= 1");
  if (min_tokens < 0 || min_tokens > max_tokens) {
    return out_of_rule("min_tokens", min_tokens,
                       fmt::format("an integer from 0 to max_tokens, which is {}", max_tokens));
  }
  QUIRE_RETURN_IF_ERROR(check_strings("stop", stop, kMaxStopStrings));
  QUIRE_RETURN_IF_ERROR(check_ids("stop_token_ids", stop_token_ids, kMaxStopTokenIds, vocab_size));
  QUIRE_RETURN_IF_ERROR(check_logit_bias(logit_bias, vocab_size));
  QUIRE_RETURN_IF_ERROR(check_strings("bad_words", bad_words, kMaxBadWords));
  QUIRE_RETURN_IF_ERROR(check_ids("allowed_token_ids", allowed_token_ids, vocab_size, vocab_size));
  QUIRE_RETURN_IF_ERROR(check_logprobs("logprobs", logprobs, max_logprobs));
  return check_logprobs("prompt_logprobs", prompt_logprobs, max_logprobs);
}

}  // namespace quire
