#include "core/sampling_params.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "core/sampling_table.h"

namespace quire {
namespace {

template <typename Value>
Status out_of_rule(std::string_view field, const Value& value, std::string_view rule) {
  return Status::invalid_argument(fmt::format("{}: {} is not {}", field, value, rule));
}

// What bounds of the table stand for here.
struct SamplingLimits {
  std::int64_t vocab_size = 0;
  std::int64_t max_logprobs = 0;
};

template <typename T>
std::string number_rule(const SamplingParameter<T>& row) {
  const double infinity = std::numeric_limits<double>::infinity();
  const char* begin = row.above ? "(" : "[";
  if (row.most < infinity) return fmt::format("a number in {}{}, {}]", begin, row.least, row.most);
  return fmt::format("a number {} {}", row.above ? ">" : ">=", row.least);
}

// NaN is in no range, and infinity in none of these.
Status check_value(const SamplingParameter<double>& row, const SamplingParams& params,
                   const SamplingLimits&) {
  const double value = params.*row.member;
  const bool above = row.above ? value > row.least : value >= row.least;
  if (std::isfinite(value) && above && value <= row.most) return {};
  return out_of_rule(row.name, value, number_rule(row));
}

Status check_value(const SamplingParameter<std::int64_t>& row, const SamplingParams& params,
                   const SamplingLimits&) {
  const std::int64_t value = params.*row.member;
  const auto least = static_cast<std::int64_t>(row.least);
  std::string rule;
  if (row.bound == SamplingBound::kMaxTokens) {
    if (value >= least && value <= params.max_tokens) return {};
    rule = fmt::format("from {} to max_tokens, which is {}", least, params.max_tokens);
  } else {
    if (value >= least && static_cast<double>(value) <= row.most) return {};
    const bool open = row.most == std::numeric_limits<double>::infinity();
    rule = open ? fmt::format(">= {}", least) : fmt::format("from {} to {}", least, row.most);
  }
  const std::string note = row.note.empty() ? "" : fmt::format(" ({})", row.note);
  return out_of_rule(row.name, value, fmt::format("an integer {}{}", rule, note));
}

Status check_value(const SamplingParameter<std::optional<std::int64_t>>& row,
                   const SamplingParams& params, const SamplingLimits& limits) {
  const std::optional<std::int64_t>& value = params.*row.member;
  if (!value || (*value >= 0 && *value <= limits.max_logprobs)) return {};
  return Status::invalid_argument(
      fmt::format("{}: {} is not an integer from 0 to {}", row.name, *value, limits.max_logprobs),
      "--max-logprobs sets the limit");
}

Status check_count(std::string_view field, std::size_t size, double most, std::string_view what) {
  if (static_cast<double>(size) <= most) return {};
  return out_of_rule(field, fmt::format("a list of {} {}", size, what),
                     fmt::format("a list of at most {}", most));
}

Status check_value(const SamplingParameter<std::vector<std::string>>& row,
                   const SamplingParams& params, const SamplingLimits&) {
  const std::vector<std::string>& strings = params.*row.member;
  QUIRE_RETURN_IF_ERROR(check_count(row.name, strings.size(), row.most, "strings"));
  for (std::size_t i = 0; i < strings.size(); ++i) {
    const std::size_t size = strings[i].size();
    if (size >= 1 && size <= SamplingParams::kMaxStopBytes) continue;
    return out_of_rule(fmt::format("{}[{}]", row.name, i),
                       fmt::format("a string of {} bytes", size),
                       fmt::format("a string of 1 to {} bytes", SamplingParams::kMaxStopBytes));
  }
  return {};
}

Status check_id(std::string_view field, TokenId id, std::int64_t vocab_size) {
  if (id >= 0 && id < vocab_size) return {};
  return out_of_rule(field, id, fmt::format("a token id in [0, {})", vocab_size));
}

Status check_value(const SamplingParameter<std::vector<TokenId>>& row, const SamplingParams& params,
                   const SamplingLimits& limits) {
  const std::vector<TokenId>& ids = params.*row.member;
  const std::int64_t vocab_size = limits.vocab_size;
  const double most =
      row.bound == SamplingBound::kVocabSize ? static_cast<double>(vocab_size) : row.most;
  QUIRE_RETURN_IF_ERROR(check_count(row.name, ids.size(), most, "ids"));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab_size) continue;  // a name costs more than all the rest
    return check_id(fmt::format("{}[{}]", row.name, i), ids[i], vocab_size);
  }
  return {};
}

Status check_value(const SamplingParameter<std::vector<LogitBias>>& row,
                   const SamplingParams& params, const SamplingLimits& limits) {
  const std::vector<LogitBias>& biases = params.*row.member;
  QUIRE_RETURN_IF_ERROR(check_count(row.name, biases.size(), row.most, "entries"));
  std::vector<TokenId> ids;
  for (const LogitBias& each : biases) {
    QUIRE_RETURN_IF_ERROR(check_id(row.name, each.token_id, limits.vocab_size));
    if (!(each.bias >= -SamplingParams::kMaxLogitBias &&
          each.bias <= SamplingParams::kMaxLogitBias)) {
      return out_of_rule(fmt::format("{}[{}]", row.name, each.token_id), each.bias,
                         fmt::format("a number in [{}, {}]", -SamplingParams::kMaxLogitBias,
                                     SamplingParams::kMaxLogitBias));
    }
    ids.push_back(each.token_id);
  }
  std::ranges::sort(ids);
  const auto twice = std::ranges::adjacent_find(ids);
  if (twice == ids.end()) return {};
  return Status::invalid_argument(
      fmt::format("{}: token id {} stands there twice", row.name, *twice));
}

// Any value will do.
Status check_value(const SamplingParameter<bool>&, const SamplingParams&, const SamplingLimits&) {
  return {};
}
Status check_value(const SamplingParameter<EarlyStopping>&, const SamplingParams&,
                   const SamplingLimits&) {
  return {};
}
Status check_value(const SamplingParameter<std::optional<std::uint64_t>>&, const SamplingParams&,
                   const SamplingLimits&) {
  return {};
}
Status check_value(const SamplingParameter<std::shared_ptr<const StructuredOutputsParams>>& row,
                   const SamplingParams& params, const SamplingLimits&) {
  const auto& value = params.*row.member;
  return value == nullptr ? Status() : value->validate();
}
Status check_value(const SamplingParameter<std::vector<std::vector<TokenId>>>&,
                   const SamplingParams&, const SamplingLimits&) {
  return {};
}

// Parameters without meaning in a beam search: its scores leave them out, or they need text, which
// outputs have only at the end.
Status check_no_transforms(const SamplingParams& params) {
  const SamplingParams none;
  const auto refuse = [](std::string_view field) {
    return Status::invalid_argument(
        fmt::format("{}: cannot be used in a beam search, and beam_width is set", field),
        "leave one of the two out");
  };
  if (params.repetition_penalty != none.repetition_penalty) return refuse("repetition_penalty");
  if (params.presence_penalty != none.presence_penalty) return refuse("presence_penalty");
  if (params.frequency_penalty != none.frequency_penalty) return refuse("frequency_penalty");
  if (params.min_tokens > 0) return refuse("min_tokens");
  if (!params.stop.empty()) return refuse("stop");
  if (!params.logit_bias.empty()) return refuse("logit_bias");
  if (!params.bad_words.empty() || !params.bad_words_token_ids.empty()) return refuse("bad_words");
  if (!params.allowed_token_ids.empty()) return refuse("allowed_token_ids");
  if (params.structured_outputs != nullptr) return refuse("structured_outputs");
  if (params.return_forced_tokens) return refuse("return_forced_tokens");
  if (params.logits_processor != nullptr) return refuse("logits_processors");
  return {};
}

Status check_no_search(const SamplingParams& params) {
  const SamplingParams none;
  const auto refuse = [](std::string_view field) {
    return Status::invalid_argument(
        fmt::format("{}: is only for beam searches, and beam_width is 0", field),
        "give beam_width, too");
  };
  if (params.length_penalty != none.length_penalty) return refuse("length_penalty");
  if (params.early_stopping != none.early_stopping) return refuse("early_stopping");
  return {};
}

Status check_beam_search(const SamplingParams& params, std::int64_t vocab_size) {
  if (!params.is_beam_search()) return check_no_search(params);
  if (params.n > params.beam_width) {
    return Status::invalid_argument(
        fmt::format("n: {} is more than beam_width, which is {}", params.n, params.beam_width),
        "a beam search has as many outputs as beams at most");
  }
  if (params.beam_width > vocab_size) {
    return Status::invalid_argument(
        fmt::format("beam_width: {} is more than the {} tokens of the vocabulary",
                    params.beam_width, vocab_size));
  }
  return check_no_transforms(params);
}

}  // namespace

Status SamplingParams::validate(std::int64_t vocab_size, std::int64_t max_logprobs) const {
  const SamplingLimits limits = {.vocab_size = vocab_size, .max_logprobs = max_logprobs};
  Status status;
  for_each_sampling_parameter([&](const auto& row) {
    if (status.ok()) status = check_value(row, *this, limits);
  });
  return status.ok() ? check_beam_search(*this, vocab_size) : status;
}

}  // namespace quire
