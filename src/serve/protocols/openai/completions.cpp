#include "serve/protocols/openai/completions.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "serve/protocols/openai/answer_size.h"
#include "serve/protocols/openai/fill_in_middle.h"
#include "serve/protocols/openai/token_report.h"

namespace quire {
namespace {

constexpr std::size_t kMaxPrompts = 1024;
constexpr std::int64_t kMaxOutputs = 4096;

struct PromptOptions {
  bool add_special_tokens = true;
  bool truncates = false;                  // a prompt may be longer than the model's context
  std::optional<std::string> suffix = {};  // what stands after the text that is to be written
  ClientGone gone;
};

Result<AnsweredPrompt> read_prompt(const json::value& value, const std::string& name,
                                   const PromptOptions& options, const Engine& engine) {
  AnsweredPrompt prompt;
  const EncodeLimits limits = options.truncates
                                  ? text_limits(name, options.gone)
                                  : prompt_limits(engine, /*room=*/1, name, options.gone);
  if (options.suffix) {
    if (!value.is_string()) {
      return Status::invalid_argument(fmt::format("{}: expected a string beside suffix", name));
    }
    QUIRE_ASSIGN_OR_RETURN(
        prompt.token_ids,
        fill_in_middle_prompt(engine, {value.get_string(), name}, {*options.suffix, "suffix"},
                              {"", name}, options.gone));
    return prompt;
  }
  if (value.is_string()) {
    const std::string_view text = value.get_string();
    QUIRE_ASSIGN_OR_RETURN(
        prompt.token_ids,
        engine.tokenizer().encode(
            text, {.add_special_tokens = options.add_special_tokens, .parse_special = true},
            limits));
    prompt.echo = text;
    return prompt;
  }
  if (!is_token_list(value)) {
    return Status::invalid_argument(
        fmt::format("{}: expected a string or a list of token ids", name));
  }
  if (value.get_array().size() > limits.max_tokens) {
    return Status::invalid_argument(fmt::format("{}: it has {} tokens, more than {}", name,
                                                value.get_array().size(), limits.max_tokens),
                                    limits.remedy);
  }
  const json::object holder = {{"prompt", value}};
  const JsonReader reader(holder, "request", StatusCode::kInvalidArgument);
  QUIRE_ASSIGN_OR_RETURN(prompt.token_ids, read_token_ids(reader, "prompt"));
  prompt.echo = engine.tokenizer().decode(prompt.token_ids, /*skip_special_tokens=*/false);
  return prompt;
}

Result<std::vector<AnsweredPrompt>> read_prompts(const JsonReader& fields, PromptOptions options,
                                                 const Engine& engine) {
  QUIRE_ASSIGN_OR_RETURN(const auto special, fields.find_bool("add_special_tokens"));
  options.add_special_tokens = special.value_or(true);
  const json::value* value = fields.find("prompt");
  if (value == nullptr) {
    return Status::invalid_argument("prompt: expected a string or a list, found nothing");
  }
  std::vector<AnsweredPrompt> prompts;
  if (!value->is_array() || is_token_list(*value)) {
    QUIRE_ASSIGN_OR_RETURN(AnsweredPrompt prompt, read_prompt(*value, "prompt", options, engine));
    prompts.push_back(std::move(prompt));
    return prompts;
  }
  const json::array& list = value->get_array();
  if (list.empty() || list.size() > kMaxPrompts) {
    return Status::invalid_argument(
        fmt::format("prompt: expected 1 to {} prompts, found {}", kMaxPrompts, list.size()));
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    QUIRE_ASSIGN_OR_RETURN(AnsweredPrompt prompt,
                           read_prompt(list[i], fmt::format("prompt[{}]", i), options, engine));
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

// `echo` with max_tokens 0 is how evaluation programs ask for the probabilities of a text alone.
Status read_echo(const json::object& given, GenerationJob& job, bool& echo) {
  const JsonReader fields(given, "request", StatusCode::kInvalidArgument);
  QUIRE_ASSIGN_OR_RETURN(const auto wanted, fields.find_bool("echo"));
  echo = wanted.value_or(false);
  if (!echo) return {};
  SamplingParams& params = job.options.params;
  if (params.max_tokens == 0) {
    params.max_tokens = 1;
    job.drop_output = true;
  }
  if (params.logprobs) {
    if (params.prompt_logprobs.value_or(*params.logprobs) != *params.logprobs) {
      return Status::invalid_argument(
          fmt::format("prompt_logprobs: {} contradicts logprobs, which is {} and with echo counts "
                      "for the prompt, too",
                      *params.prompt_logprobs, *params.logprobs));
    }
    params.prompt_logprobs = params.logprobs;
  }
  return {};
}

// An empty one is none.
Result<std::optional<std::string>> read_suffix(const JsonReader& fields, bool echo,
                                               bool truncates) {
  QUIRE_ASSIGN_OR_RETURN(auto suffix, fields.find_string("suffix"));
  if (!suffix || suffix->empty()) return std::optional<std::string>();
  if (echo) {
    return Status::invalid_argument(
        "suffix: echo would repeat the prompt in two forms, as given and as shown to the model; "
        "leave out one of them");
  }
  if (truncates) {
    return Status::invalid_argument(
        "suffix: truncate_prompt_tokens would remove the marks between the two texts; leave out "
        "one of them");
  }
  return suffix;
}

// Of a beam search it is one of the names of its width, and read with the others.
Status check_best_of(const JsonReader& fields, const SamplingParams& params) {
  QUIRE_ASSIGN_OR_RETURN(const auto best_of, fields.find_int("best_of"));
  if (!best_of || *best_of == params.n || params.is_beam_search()) return {};
  return Status::unimplemented(fmt::format(
      "best_of: {} is not supported, only the value of n, which is {}", *best_of, params.n));
}

Result<GenerationJob> read_completion(const RequestBody& body, const ServedModel& served,
                                      const Engine& engine, bool& echo, ClientGone gone) {
  const JsonReader fields = body.reader();
  GenerationJob job;
  QUIRE_ASSIGN_OR_RETURN(job.options, read_generation_options(fields, engine));
  QUIRE_RETURN_IF_ERROR(read_echo(body.object(), job, echo));
  QUIRE_RETURN_IF_ERROR(check_best_of(fields, job.options.params));
  QUIRE_RETURN_IF_ERROR(
      job.options.params.validate(engine.info().vocab_size, served.max_logprobs()));
  PromptOptions options = {.truncates = job.options.truncate_prompt_tokens.has_value(),
                           .gone = std::move(gone)};
  QUIRE_ASSIGN_OR_RETURN(options.suffix, read_suffix(fields, echo, options.truncates));
  QUIRE_ASSIGN_OR_RETURN(job.prompts, read_prompts(fields, options, engine));
  if (std::ssize(job.prompts) * job.options.params.n > kMaxOutputs) {
    return Status::invalid_argument(
        fmt::format("n: {} prompts with {} outputs each are more than {}", job.prompts.size(),
                    job.options.params.n, kMaxOutputs));
  }
  for (AnsweredPrompt& prompt : job.prompts) {
    QUIRE_RETURN_IF_ERROR(
        truncate_prompt(prompt.token_ids, job.options, engine.info().max_model_len));
    if (prompt.token_ids.empty()) {
      return Status::invalid_argument("prompt: it has no tokens", "give a prompt of some text");
    }
    if (job.options.max_tokens_requested) {
      QUIRE_RETURN_IF_ERROR(check_room(job.options.params.max_tokens, "max_tokens",
                                       std::ssize(prompt.token_ids), engine));
    }
    if (!echo) prompt.echo.clear();
  }
  QUIRE_RETURN_IF_ERROR(
      fit_answer(job, echo ? AnswerKind::kEchoedCompletion : AnswerKind::kCompletion, served));
  if (job.options.return_sampling_params) {
    job.sampling = sampling_report(body.object(), job.options.params, engine);
  }
  job.ignored_fields = body.ignored_fields();
  return job;
}

class CompletionFormat final : public ChoiceFormat {
 public:
  CompletionFormat(const Engine& engine, const GenerationOptions& options, bool echo)
      : tokenizer_(engine.tokenizer()),
        logprobs_(options.params.logprobs.has_value()),
        token_ids_(options.return_token_ids),
        forced_tokens_(options.params.return_forced_tokens),
        prompt_logprobs_(options.return_prompt_logprobs),
        echo_(echo) {}

  bool choices_tell_of_prompts() const override { return true; }
  std::string_view id_prefix() const override { return "cmpl-"; }
  std::string_view object() const override { return "text_completion"; }
  std::string_view chunk_object() const override { return "text_completion"; }

  void append_choice(std::string& out, const AnsweredPrompt& prompt, std::int64_t index,
                     const AnsweredOutput& output,
                     const std::vector<PositionLogprobs>& prompt_logprobs) const override {
    fmt::format_to(std::back_inserter(out), R"({{"index":{},"text":{},"logprobs":)", index,
                   json::serialize(json::string_view(prompt.echo + output.text)));
    if (logprobs_) {
      CompletionPositions positions = {.output = output.logprobs};
      if (echo_) {
        positions.first = prompt.token_ids.data();
        positions.prompt = prompt_logprobs;
      }
      append_completion_logprobs(out, tokenizer_, positions, 0);
    } else {
      out += "null";
    }
    append_end_of_choice(out, output);
    if (token_ids_) {
      append_token_ids(out, "prompt_token_ids", prompt.token_ids);
      append_token_ids(out, "token_ids", output.token_ids);
    }
    if (forced_tokens_) append_forced_tokens(out, output.forced_tokens);
    if (prompt_logprobs_) {
      out += R"(,"prompt_logprobs":)";
      append_prompt_logprobs(out, tokenizer_, prompt.token_ids, prompt_logprobs);
    }
    out += '}';
  }

  void append_chunk_choice(std::string& out, const AnsweredPrompt& prompt, std::int64_t index,
                           const AnsweredOutput& piece,
                           const std::vector<PositionLogprobs>& prompt_logprobs) const override {
    fmt::format_to(std::back_inserter(out), R"({{"index":{},"text":)", index);
    if (piece.first && !prompt.echo.empty()) {
      out += json::serialize(json::string_view(prompt.echo + piece.text));
    } else {
      out += json::serialize(json::string_view(piece.text));
    }
    out += R"(,"logprobs":)";
    if (logprobs_) {
      CompletionPositions positions = {.output = piece.logprobs};
      if (echo_ && piece.first) {
        positions.first = prompt.token_ids.data();
        positions.prompt = prompt_logprobs;
      }
      append_completion_logprobs(out, tokenizer_, positions, piece.text_offset);
    } else {
      out += "null";
    }
    if (piece.finished) {
      append_end_of_choice(out, piece);
    } else {
      out += R"(,"finish_reason":null)";
    }
    if (token_ids_) {
      if (piece.first) append_token_ids(out, "prompt_token_ids", prompt.token_ids);
      append_token_ids(out, "token_ids", piece.token_ids);
    }
    if (forced_tokens_) append_forced_tokens(out, piece.forced_tokens);
    out += '}';
  }

 private:
  const Tokenizer& tokenizer_;
  bool logprobs_;
  bool token_ids_;
  bool forced_tokens_;
  bool prompt_logprobs_;
  bool echo_;
};

}  // namespace

std::variant<GenerationJob, ApiError> parse_completion_request(std::string_view body,
                                                               const Service& service, bool& echo,
                                                               ClientGone gone) {
  auto parsed = RequestBody::parse(body, completion_fields(), service);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  const auto& request = std::get<RequestBody>(parsed);
  auto named = read_model(request, service);
  if (auto* error = std::get_if<ApiError>(&named)) return std::move(*error);
  auto& model = std::get<RequestedModel>(named);
  const ServedModel& served = *model.served;
  auto job = read_completion(request, served, served.engine(), echo, std::move(gone));
  if (!job.ok()) return request_error(job.status(), served, "prompt");
  job->model = std::move(model.name);
  job->served = model.served;
  return *std::move(job);
}

std::vector<Route> completion_routes(Service& service) {
  const auto handle = [&service](std::shared_ptr<Exchange> exchange) {
    bool echo = false;
    auto job = parse_completion_request(exchange->request().body, service, echo,
                                        [exchange = exchange.get()] { return exchange->gone(); });
    if (const auto* error = std::get_if<ApiError>(&job)) return respond_error(*exchange, *error);
    auto& parsed = std::get<GenerationJob>(job);
    auto format = std::make_unique<CompletionFormat>(parsed.served->engine(), parsed.options, echo);
    answer_generation(std::move(exchange), std::move(parsed), std::move(format));
  };
  std::vector<Route> routes;
  routes.push_back(
      {.method = "POST", .pattern = "/v1/completions", .handler = handle, .metered = true});
  return routes;
}

}  // namespace quire
