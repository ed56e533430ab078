#include "apps/bench_serve/workload.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/random.h"

namespace quire::bench {
namespace {

constexpr std::int64_t kDefaultPrompts = 1000;

json::value prompt_value(const Prompt& prompt) {
  if (const auto* ids = std::get_if<TokenIds>(&prompt))
    return json::array(ids->begin(), ids->end());
  if (const auto* text = std::get_if<std::string>(&prompt)) return json::string(*text);
  return std::get<json::array>(prompt);
}

json::array as_messages(const Prompt& prompt) {
  if (const auto* messages = std::get_if<json::array>(&prompt)) return *messages;
  return {json::object{{"role", "user"}, {"content", std::get<std::string>(prompt)}}};
}

std::string make_body(const RequestFormat& format, const Prompt& prompt, std::int64_t output_len) {
  json::object body = {{"model", format.model}};
  if (format.chat) {
    body["messages"] = as_messages(prompt);
  } else {
    body["prompt"] = prompt_value(prompt);
  }
  body["max_tokens"] = output_len;
  body["temperature"] = format.temperature;
  if (format.ignore_eos) body["ignore_eos"] = true;
  body["stream"] = true;
  body["stream_options"] = json::object{{"include_usage", true}};
  for (const auto& entry : format.extra) body[entry.key()] = entry.value();
  return json::serialize(body);
}

// The random numbers of one run: prompts and lengths, each of its own stream.
class Randomness {
 public:
  Randomness(const WorkloadFlags& flags, std::uint64_t salt)
      : ratio_(flags.range_ratio), seed_(random_bits(mix64(flags.seed), salt)) {}

  std::uint64_t prompt_stream(std::int64_t index) const { return stream(1, index); }
  std::uint64_t prefix_stream(std::int64_t index) const { return stream(2, index); }
  std::int64_t prefix_of(std::int64_t index, std::int64_t num_prefixes) const {
    return static_cast<std::int64_t>(stream(3, index) % static_cast<std::uint64_t>(num_prefixes));
  }
  std::int64_t vary_input(std::int64_t mean, std::int64_t index) const {
    return vary(mean, stream(4, index));
  }
  std::int64_t vary_output(std::int64_t mean, std::int64_t index) const {
    return vary(mean, stream(5, index));
  }

 private:
  std::uint64_t stream(std::uint64_t kind, std::int64_t index) const {
    return random_bits(random_bits(seed_, kind), static_cast<std::uint64_t>(index));
  }
  std::int64_t vary(std::int64_t mean, std::uint64_t bits) const {
    const auto spread = static_cast<std::int64_t>(std::floor(static_cast<double>(mean) * ratio_));
    const std::int64_t low = std::max<std::int64_t>(mean - spread, 1);
    const auto count = static_cast<std::uint64_t>(mean + spread - low + 1);
    return low + static_cast<std::int64_t>(bits % count);
  }

  double ratio_;
  std::uint64_t seed_;
};

// Draws what the data set leaves to chance.
class Planner {
 public:
  Planner(const WorkloadFlags& flags, const RequestFormat& format, const PromptSource& source,
          std::uint64_t salt)
      : flags_(flags), format_(format), source_(source), random_(flags, salt) {}

  PlannedRequest random(std::int64_t index) const {
    return drawn(random_.vary_input(flags_.input_len, index), index,
                 random_.vary_output(flags_.output_len, index));
  }

  PlannedRequest with_prefix(std::int64_t index) const {
    const std::uint64_t prefix =
        random_.prefix_stream(random_.prefix_of(index, flags_.num_prefixes));
    const std::int64_t suffix_len = random_.vary_input(flags_.suffix_len, index);
    const std::int64_t output_len = random_.vary_output(flags_.output_len, index);
    const std::uint64_t suffix = random_.prompt_stream(index);
    if (format_.chat) {
      const auto message = [](std::string_view role, std::string text) {
        return json::object{{"role", role}, {"content", std::move(text)}};
      };
      return finish(json::array{message("system", source_.draw_text(flags_.prefix_len, prefix)),
                                message("user", source_.draw_text(suffix_len, suffix))},
                    output_len, 0);
    }
    return finish(PromptSource::join(source_.draw(flags_.prefix_len, prefix),
                                     source_.draw(suffix_len, suffix)),
                  output_len, source_.exact() ? flags_.prefix_len + suffix_len : 0);
  }

  Result<PlannedRequest> from_line(const WorkloadLine& line, std::int64_t index) const {
    const std::int64_t output_len =
        line.output_len ? *line.output_len : random_.vary_output(flags_.output_len, index);
    if (!line.prompt) {
      return drawn(line.input_len.value_or(flags_.input_len), index, output_len);
    }
    const bool messages = std::holds_alternative<json::array>(*line.prompt);
    const bool ids = std::holds_alternative<TokenIds>(*line.prompt);
    if (messages && !format_.chat) {
      return Status::invalid_argument(
          fmt::format("{}: it has messages, which /v1/completions does not take", flags_.path),
          "give --endpoint /v1/chat/completions");
    }
    if (ids && format_.chat) {
      return Status::invalid_argument(
          fmt::format("{}: it has token ids, which /v1/chat/completions does not take",
                      flags_.path),
          "give --endpoint /v1/completions");
    }
    return finish(*line.prompt, output_len, ids ? std::ssize(std::get<TokenIds>(*line.prompt)) : 0);
  }

 private:
  PlannedRequest drawn(std::int64_t length, std::int64_t index, std::int64_t output_len) const {
    const std::uint64_t stream = random_.prompt_stream(index);
    if (format_.chat) return finish(source_.draw_text(length, stream), output_len, 0);
    return finish(source_.draw(length, stream), output_len, source_.exact() ? length : 0);
  }

  PlannedRequest finish(const Prompt& prompt, std::int64_t output_len,
                        std::int64_t prompt_tokens) const {
    return {.body = make_body(format_, prompt, output_len), .prompt_tokens = prompt_tokens};
  }

  const WorkloadFlags& flags_;
  const RequestFormat& format_;
  const PromptSource& source_;
  Randomness random_;
};

}  // namespace

Result<std::vector<PlannedRequest>> make_requests(const WorkloadFlags& flags,
                                                  const std::vector<WorkloadLine>& lines,
                                                  const RequestFormat& format,
                                                  const PromptSource& source, std::uint64_t salt) {
  const bool from_file = flags.dataset == Dataset::kJsonl || flags.dataset == Dataset::kTrace;
  const std::int64_t count =
      flags.num_prompts.value_or(from_file ? std::ssize(lines) : kDefaultPrompts);
  const Planner planner(flags, format, source, salt);
  std::vector<PlannedRequest> requests;
  requests.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    if (!from_file) {
      requests.push_back(flags.dataset == Dataset::kRandom ? planner.random(i)
                                                           : planner.with_prefix(i));
      continue;
    }
    const WorkloadLine& line = lines[static_cast<std::size_t>(i) % lines.size()];
    QUIRE_ASSIGN_OR_RETURN(PlannedRequest request, planner.from_line(line, i));
    if (line.timestamp) {
      const double unit = flags.timestamps_in_ms ? 1e-3 : 1.0;
      request.timestamp = (*line.timestamp - *lines.front().timestamp) * unit;
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

}  // namespace quire::bench
