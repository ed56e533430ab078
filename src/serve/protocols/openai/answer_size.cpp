#include "serve/protocols/openai/answer_size.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

namespace quire {
namespace {

// JSON around what varies: names, quotes, commas.
constexpr std::uint64_t kAnswerBytes = 4096;     // of the whole answer
constexpr std::uint64_t kChoiceBytes = 512;      // of a choice
constexpr std::uint64_t kWhyBytes = 1024;        // of its "why"
constexpr std::uint64_t kForcedBytes = 20;       // ,"forced_tokens":[]
constexpr std::uint64_t kBoolBytes = 6;          // false,
constexpr std::uint64_t kNumberBytes = 25;       // the longest number and a comma
constexpr std::uint64_t kOffsetBytes = 12;       // of a text offset, and a comma
constexpr std::uint64_t kChatTokenBytes = 36;    // {"token":"","logprob":,"bytes":[]},
constexpr std::uint64_t kChatTopBytes = 20;      // ,"top_logprobs":[]
constexpr std::uint64_t kRankedTokenBytes = 60;  // "":{"logprob":,"rank":,"decoded_token":""},
constexpr std::uint64_t kWidestEscape = 6;       // of a byte, "\u0001"
// Reasoning is told twice, and arguments are JSON within a string; a call has at least three
// tokens.
constexpr std::uint64_t kCopiesOfRead = 2;
constexpr std::uint64_t kCallBytesPerToken = 40;
// Of an output in the engine, besides its tokens and stop strings.
constexpr std::uint64_t kOutputBytes = 2048;

std::uint64_t unsigned_of(std::int64_t value) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, value));
}

// "logprobs" of one position.
std::uint64_t completion_position(std::int64_t num_top, const TokenWidths& widths) {
  const std::uint64_t tokens = unsigned_of(num_top) + 1;
  return kOffsetBytes + kNumberBytes + widths.texts(1) + 3 + 3 + widths.texts(num_top + 1) +
         tokens * (kNumberBytes + 3);
}

std::uint64_t chat_position(std::int64_t num_top, const TokenWidths& widths) {
  const std::uint64_t tokens = unsigned_of(num_top) + 1;
  return kChatTopBytes + tokens * (kChatTokenBytes + kNumberBytes) + widths.texts(1) +
         widths.byte_lists(1) + widths.texts(num_top) + widths.byte_lists(num_top);
}

std::uint64_t prompt_position(std::int64_t num_top, const TokenWidths& widths) {
  const std::uint64_t tokens = unsigned_of(num_top) + 1;
  return 3 + tokens * (kRankedTokenBytes + kNumberBytes + widths.id()) + widths.texts(num_top + 1);
}

// Bytes = fixed + per_token x tokens of an output.
struct OutputSize {
  std::uint64_t fixed = 0;
  std::uint64_t per_token = 0;
};

OutputSize output_size(const GenerationJob& job, const AnsweredPrompt& prompt, AnswerKind kind,
                       const TokenWidths& widths) {
  const GenerationOptions& options = job.options;
  const std::uint64_t num_prompt_tokens = prompt.token_ids.size();
  OutputSize size = {.fixed = kChoiceBytes + json_text_bytes(prompt.echo),
                     .per_token = std::max<std::uint64_t>(1, widths.texts(1))};
  if (prompt.parsing.reads()) {
    size.per_token = size.per_token * kCopiesOfRead + kCallBytesPerToken;
  }
  std::uint64_t longest_stop = 0;
  for (const std::string& stop : options.params.stop) {
    longest_stop = std::max(longest_stop, json_text_bytes(stop));
  }
  size.fixed += longest_stop;
  if (options.return_why) size.fixed += kWhyBytes;
  if (options.return_token_ids) {
    size.fixed += num_prompt_tokens * widths.id();
    size.per_token += widths.id();
  }
  if (options.params.return_forced_tokens) {
    size.fixed += kForcedBytes;
    size.per_token += kBoolBytes;
  }
  if (!options.params.logprobs) return size;
  const std::int64_t num_top = *options.params.logprobs;
  if (kind == AnswerKind::kChat) {
    size.per_token += chat_position(num_top, widths);
    return size;
  }
  const std::uint64_t position = completion_position(num_top, widths);
  size.per_token += position;
  if (kind == AnswerKind::kEchoedCompletion) size.fixed += num_prompt_tokens * position;
  return size;
}

// An estimate from above of the size of the parameters, with the ids that bad words become.
std::uint64_t params_bytes(const SamplingParams& params) {
  std::uint64_t bytes = sizeof(SamplingParams);
  for (const std::string& word : params.bad_words) {
    bytes += 128 + word.size() * (1 + 2 * sizeof(TokenId));
  }
  bytes += params.logit_bias.size() * sizeof(LogitBias);
  bytes += (params.allowed_token_ids.size() + params.stop_token_ids.size()) * sizeof(TokenId);
  return bytes;
}

std::uint64_t stop_bytes(const SamplingParams& params) {
  std::uint64_t bytes = 0;
  for (const std::string& stop : params.stop) bytes += 64 + stop.size();
  return bytes;
}

Status check_held_bytes(const GenerationJob& job) {
  const SamplingParams& params = job.options.params;
  const auto num_prompts = static_cast<std::uint64_t>(job.prompts.size());
  const std::uint64_t n = unsigned_of(params.n);
  const std::uint64_t stops = stop_bytes(params);
  std::uint64_t num_tokens = 0;
  for (const AnsweredPrompt& prompt : job.prompts) num_tokens += prompt.token_ids.size();
  const std::uint64_t bytes = num_tokens * (n + 2) * sizeof(TokenId) +
                              num_prompts * params_bytes(params) + num_prompts * (n + 1) * stops +
                              num_prompts * n * kOutputBytes;
  if (bytes <= kMaxHeldBytes) return {};
  return Status::invalid_argument(
      fmt::format("prompt: {} prompts with n {}, {} tokens in all, {} bytes of stop strings and {} "
                  "of other lists would hold {} bytes, more than {}",
                  num_prompts, n, num_tokens, stops, params_bytes(params), bytes, kMaxHeldBytes),
      "send fewer prompts at once, or lower n, stop, bad_words or allowed_token_ids");
}

Status too_large(std::uint64_t bytes, std::string_view what, std::string_view remedy,
                 const ServedModel& served) {
  return Status::invalid_argument(
      fmt::format("{}: an answer of up to {} bytes, more than --max-response-bytes {}", what, bytes,
                  served.config().max_response_bytes),
      std::string(remedy));
}

// The log probabilities of an echoed prompt come at once, with the first piece of each output.
Status check_echo(const GenerationJob& job, const TokenWidths& widths, const ServedModel& served) {
  if (!job.options.params.logprobs) return {};
  std::uint64_t bytes = 0;
  for (const AnsweredPrompt& prompt : job.prompts) {
    bytes += unsigned_of(job.options.params.n) *
             (json_text_bytes(prompt.echo) +
              prompt.token_ids.size() * completion_position(*job.options.params.logprobs, widths));
  }
  if (bytes <= served.config().max_unsent_bytes) return {};
  return Status::invalid_argument(
      fmt::format("echo: with logprobs up to {} bytes of the prompts come at once, more than "
                  "--max-unsent-bytes {}",
                  bytes, served.config().max_unsent_bytes),
      "send fewer or shorter prompts, lower n or logprobs, or do without a stream");
}

std::string_view fault_of(const SamplingParams& params) {
  if (params.logprobs) return "logprobs";
  return params.prompt_logprobs ? "prompt_logprobs" : "max_tokens";
}

}  // namespace

Status fit_answer(GenerationJob& job, AnswerKind kind, const ServedModel& served) {
  QUIRE_RETURN_IF_ERROR(check_held_bytes(job));
  SamplingParams& params = job.options.params;
  const TokenWidths& widths = served.token_widths();
  if (job.options.stream) {
    return kind == AnswerKind::kEchoedCompletion ? check_echo(job, widths, served) : Status();
  }
  const std::uint64_t limit = served.config().max_response_bytes;
  const std::uint64_t n = unsigned_of(params.n);
  const std::int64_t max_model_len = served.engine().info().max_model_len;
  std::uint64_t fixed = kAnswerBytes;
  if (job.options.return_sampling_params) {
    fixed += kAnswerBytes + kWidestEscape * (params_bytes(params) + stop_bytes(params));
  }
  std::uint64_t outputs = 0;
  std::int64_t most_prompt_tokens = 0;
  for (const AnsweredPrompt& prompt : job.prompts) {
    const std::int64_t num_prompt_tokens = std::ssize(prompt.token_ids);
    most_prompt_tokens = std::max(most_prompt_tokens, num_prompt_tokens);
    // Each choice of a completion has them, of a chat the whole answer.
    if (params.prompt_logprobs && job.options.return_prompt_logprobs) {
      const std::uint64_t copies = kind == AnswerKind::kChat ? 1 : n;
      fixed += copies * unsigned_of(num_prompt_tokens) *
               prompt_position(*params.prompt_logprobs, widths);
    }
    const OutputSize size = output_size(job, prompt, kind, widths);
    fixed += n * size.fixed;
    if (job.drop_output) continue;
    const std::uint64_t room = unsigned_of(max_model_len - num_prompt_tokens);
    if (job.fits_max_tokens && fixed < limit) {  // of a chat, which has one prompt
      const std::uint64_t fitting = (limit - fixed) / (n * size.per_token);
      params.max_tokens = std::clamp<std::int64_t>(static_cast<std::int64_t>(fitting), 1,
                                                   std::max<std::int64_t>(1, params.max_tokens));
    }
    outputs += n * size.per_token * std::min(room, unsigned_of(params.max_tokens));
  }
  if (fixed + outputs <= limit) return {};
  return too_large(
      fixed + outputs,
      fmt::format("{}: {} prompts of up to {} tokens, n {}, max_tokens {}, {} alternatives",
                  fault_of(params), job.prompts.size(), most_prompt_tokens, n,
                  job.drop_output ? 0 : params.max_tokens,
                  std::max(params.logprobs.value_or(0), params.prompt_logprobs.value_or(0))),
      "lower the number of prompts, n, max_tokens or logprobs", served);
}

Result<std::int64_t> fit_response(const SamplingParams& params, const AnswerParsing& parsing,
                                  std::int64_t num_prompt_tokens,
                                  std::optional<std::int64_t> max_tokens, int copies,
                                  const ServedModel& served) {
  const TokenWidths& widths = served.token_widths();
  const std::uint64_t limit = served.config().max_response_bytes;
  const auto num_copies = static_cast<std::uint64_t>(copies);
  std::uint64_t per_token = std::max<std::uint64_t>(1, widths.texts(1));
  if (parsing.reads()) per_token = per_token * kCopiesOfRead + kCallBytesPerToken;
  if (params.logprobs) per_token += chat_position(*params.logprobs, widths);
  per_token *= num_copies;
  const std::int64_t room =
      std::max<std::int64_t>(1, served.engine().info().max_model_len - num_prompt_tokens);
  const std::uint64_t fixed = num_copies * kAnswerBytes;
  const std::uint64_t fitting = fixed < limit ? (limit - fixed) / per_token : 0;
  const std::int64_t wanted =
      max_tokens.value_or(std::clamp<std::int64_t>(static_cast<std::int64_t>(fitting), 1, room));
  const std::uint64_t most = unsigned_of(std::min(wanted, room));
  if (most <= fitting) return wanted;
  return too_large(fixed + most * per_token,
                   fmt::format("max_output_tokens: {} tokens with {} alternatives", most,
                               params.logprobs.value_or(0)),
                   "lower max_output_tokens or top_logprobs", served);
}

Status check_answer_bytes(std::uint64_t bytes, std::string_view what, const ServedModel& served) {
  bytes += kAnswerBytes;
  if (bytes <= served.config().max_response_bytes) return {};
  return too_large(bytes, what, "ask for less at once", served);
}

}  // namespace quire
