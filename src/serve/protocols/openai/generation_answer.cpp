#include "serve/protocols/openai/generation_answer.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "serve/generation/generation.h"
#include "serve/protocols/openai/token_report.h"
#include "serve/requests/request_origin.h"
#include "serve/why/request_story.h"

namespace quire {
namespace {

// The stop string or token of the request that matched; null at an ordinary end.
json::value stop_reason(const RequestOutput& output, const SamplingParams& params) {
  if (output.stop_string) return json::value(*output.stop_string);
  const auto& ids = params.stop_token_ids;
  if (output.stop_token_id && std::ranges::find(ids, *output.stop_token_id) != ids.end()) {
    return json::value(*output.stop_token_id);
  }
  return nullptr;
}

// The choices of all outputs of all prompts.
class ChoicesAnswer final : public GenerationAnswer {
 public:
  ChoicesAnswer(std::shared_ptr<Exchange> exchange, GenerationJob job,
                std::unique_ptr<const ChoiceFormat> format)
      : exchange_(std::move(exchange)),
        job_(std::move(job)),
        format_(std::move(format)),
        created_(std::time(nullptr)) {
    const std::string& name =
        job_.options.request_id ? *job_.options.request_id : exchange_->request().request_id;
    id_ = std::string(format_->id_prefix()) + name;
    const auto n = static_cast<std::size_t>(job_.options.params.n);
    outputs_.resize(job_.prompts.size() * n);
    prompt_logprobs_.resize(job_.prompts.size());
    readers_.resize(outputs_.size());
    for (std::size_t i = 0; i < readers_.size(); ++i) {
      const AnswerParsing& parsing = job_.prompts[i / n].parsing;
      if (parsing.reads()) readers_[i] = std::make_unique<AnswerReader>(parsing);
    }
  }

  RequestOrigin origin() const {
    return origin_of(*exchange_, id_, job_.model, job_.options.stream);
  }

  void refused(const Status& error) override {
    respond_error(*exchange_, request_error(error, *job_.served, job_.prompt_field));
  }

  void begun() override {
    if (!job_.options.stream) return;
    HttpResponse head;
    head.content_type = "text/event-stream; charset=utf-8";
    head.headers = {{"Cache-Control", "no-cache"}};
    add_ignored_fields(head);
    exchange_->start_stream(std::move(head));
    chunk_head_ = fmt::format(R"(data: {{"id":{},"object":"{}","created":{},"model":{},)",
                              json::serialize(json::string_view(id_)), format_->chunk_object(),
                              created_, json::serialize(json::string_view(job_.model)));
    if (!job_.sampling.is_null()) {
      first_text_ = fmt::format(R"(,"sampling_params":{})", json::serialize(job_.sampling));
    }
    if (reports_prompt_token_ids()) append_prompt_token_ids(first_text_);
  }

  void piece(std::size_t prompt, const RequestOutput& output, bool last) override {
    const std::size_t position = prompt * num_per_prompt() + index_of(output);
    AnsweredOutput& target = outputs_[position];
    AnsweredOutput read_piece = read(output, target, readers_[position].get());
    if (!output.prompt_logprobs.empty()) prompt_logprobs_[prompt] = output.prompt_logprobs;
    usage_.completion_tokens += job_.drop_output ? 0 : std::ssize(output.token_ids);
    if (output.request_finished) {
      usage_.prompt_tokens += output.num_prompt_tokens;
      usage_.cached_tokens += output.num_cached_tokens;
    }
    usage_.accepted_drafts += output.num_accepted_drafts;
    usage_.rejected_drafts += output.num_rejected_drafts;
    step_time_ += output.metrics.step_time;
    if (last) usage_.cost = job_.served->cost_of(step_time_);
    if (job_.options.stream) {
      stream(prompt, output, read_piece, target, last);
    } else {
      collect(target, std::move(read_piece));
      if (last) respond();
    }
  }

  // An error in the answer's place, or in the middle of the stream.
  void failed(const Status& status) override {
    const ApiError error = request_error(status, *job_.served, job_.prompt_field);
    if (job_.options.stream) {
      exchange_->write(
          fmt::format("data: {}\n\ndata: [DONE]\n\n", json::serialize(error_body(error))));
      exchange_->finish();
    } else {
      respond_error(*exchange_, error);
    }
  }

 private:
  AnsweredOutput read(const RequestOutput& output, const AnsweredOutput& before,
                      AnswerReader* reader) const {
    AnsweredOutput piece;
    piece.first = before.first;
    piece.text_offset = before.text_offset;
    piece.finished = output.finished;
    if (output.finished) {
      piece.finish_reason = job_.drop_output ? "length" : finish_reason_name(*output.finish_reason);
      piece.stop_reason = job_.drop_output ? nullptr : stop_reason(output, job_.options.params);
      if (job_.options.return_why) piece.why = short_story(output);
    }
    if (job_.drop_output) return piece;
    if (reader != nullptr) {
      read_parts(output, *reader, piece);
    } else {
      piece.text = output.text;
    }
    piece.token_ids = output.token_ids;
    piece.forced_tokens = output.forced_tokens;
    if (job_.options.params.logprobs) piece.logprobs = output.logprobs;
    return piece;
  }

  static void read_parts(const RequestOutput& output, AnswerReader& reader, AnsweredOutput& piece) {
    AnswerParts parts = parts_of(reader.read(output.text, output.finished));
    piece.text = std::move(parts.content);
    piece.reasoning = std::move(parts.reasoning);
    piece.calls = std::move(parts.calls);
    const bool calls = output.finished && reader.any_calls();
    if (calls && output.finish_reason == FinishReason::kStop) piece.finish_reason = "tool_calls";
  }

  static void collect(AnsweredOutput& target, AnsweredOutput piece) {
    target.text += piece.text;
    target.reasoning += piece.reasoning;
    add_parts(target.calls, std::move(piece.calls));
    target.token_ids.insert(target.token_ids.end(), piece.token_ids.begin(), piece.token_ids.end());
    std::ranges::move(piece.logprobs, std::back_inserter(target.logprobs));
    target.forced_tokens.insert(target.forced_tokens.end(), piece.forced_tokens.begin(),
                                piece.forced_tokens.end());
    target.finished = piece.finished;
    target.finish_reason = std::move(piece.finish_reason);
    target.stop_reason = std::move(piece.stop_reason);
    target.why = std::move(piece.why);
  }

  // A piece without text waits for its character to be complete, unless something else is to be
  // told of it.
  void stream(std::size_t prompt, const RequestOutput& output, const AnsweredOutput& piece,
              AnsweredOutput& state, bool last) {
    const bool tells = !piece.text.empty() || !piece.reasoning.empty() || !piece.calls.empty() ||
                       piece.finished || !piece.logprobs.empty() || !piece.forced_tokens.empty() ||
                       (job_.options.return_token_ids && !piece.token_ids.empty());
    if (tells) {
      text_.clear();
      text_ += chunk_head_;
      text_ += R"("choices":[)";
      const auto index = static_cast<std::int64_t>(prompt * num_per_prompt() + index_of(output));
      format_->append_chunk_choice(text_, job_.prompts[prompt], index, piece,
                                   prompt_logprobs_[prompt]);
      append_why(text_, piece.why);
      text_ += ']';
      text_ += std::exchange(first_text_, {});
      append_chunk_usage();
      text_ += "}\n\n";
      if (job_.options.params.logprobs) {
        if (state.first && !job_.prompts[prompt].echo.empty()) {
          state.text_offset += characters_of(job_.prompts[prompt].token_ids);
        }
        state.text_offset += count_characters(piece.text);
      }
      state.first = false;
    }
    if (last) {
      if (job_.options.include_usage) {
        text_ += fmt::format(R"({}"choices":[],"usage":{}}})", chunk_head_,
                             json::serialize(usage_.to_json()));
        text_ += "\n\n";
      }
      text_ += "data: [DONE]\n\n";
    }
    if (tells || last) exchange_->write(text_);
    if (last) exchange_->finish();
  }

  // Of a prompt that is echoed, as its tokens' offsets count them.
  std::int64_t characters_of(const std::vector<TokenId>& token_ids) const {
    const Tokenizer& tokenizer = job_.served->engine().tokenizer();
    std::int64_t count = 0;
    for (const TokenId id : token_ids) count += count_characters(token_string(tokenizer, id));
    return count;
  }

  // Into the choice that `text` ends with.
  static void append_why(std::string& text, const json::value& why) {
    if (why.is_null()) return;
    text.pop_back();  // the choice's brace
    text += fmt::format(R"(,"why":{}}})", json::serialize(why));
  }

  bool reports_prompt_logprobs() const {
    return job_.options.return_prompt_logprobs && !format_->choices_tell_of_prompts();
  }
  bool reports_prompt_token_ids() const {
    return job_.options.return_token_ids && !format_->choices_tell_of_prompts();
  }
  void append_prompt_token_ids(std::string& text) const {
    append_token_ids(text, "prompt_token_ids", job_.prompts[0].token_ids);
  }

  void append_chunk_usage() {
    if (job_.options.continuous_usage) {
      TokenUsage so_far = usage_;
      so_far.prompt_tokens = 0;
      for (const AnsweredPrompt& each : job_.prompts) {
        so_far.prompt_tokens += std::ssize(each.token_ids);
      }
      text_ += fmt::format(R"(,"usage":{})", json::serialize(so_far.to_json()));
    } else if (job_.options.include_usage) {
      text_ += R"(,"usage":null)";
    }
  }

  // What it is made of goes as soon as it is text.
  void respond() {
    HttpResponse response;
    std::string& body = response.body;
    body = fmt::format(R"({{"id":{},"object":"{}","created":{},"model":{},"choices":[)",
                       json::serialize(json::string_view(id_)), format_->object(), created_,
                       json::serialize(json::string_view(job_.model)));
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const std::size_t prompt = i / num_per_prompt();
      if (i > 0) body += ',';
      format_->append_choice(body, job_.prompts[prompt], static_cast<std::int64_t>(i), outputs_[i],
                             prompt_logprobs_[prompt]);
      append_why(body, outputs_[i].why);
      outputs_[i] = {};
      const bool last_of_prompt = (i + 1) % num_per_prompt() == 0;
      if (last_of_prompt && !reports_prompt_logprobs()) prompt_logprobs_[prompt] = {};
    }
    body += fmt::format(R"(],"usage":{})", json::serialize(usage_.to_json()));
    if (!job_.sampling.is_null()) {
      body += fmt::format(R"(,"sampling_params":{})", json::serialize(job_.sampling));
    }
    if (reports_prompt_token_ids()) append_prompt_token_ids(body);
    if (reports_prompt_logprobs()) {
      body += R"(,"prompt_logprobs":)";
      append_prompt_logprobs(body, job_.served->engine().tokenizer(), job_.prompts[0].token_ids,
                             prompt_logprobs_[0]);
    }
    body += '}';
    add_ignored_fields(response);
    exchange_->respond(std::move(response));
  }

  void add_ignored_fields(HttpResponse& response) const {
    if (!job_.ignored_fields.empty()) {
      response.headers.push_back({"X-Ignored-Fields", job_.ignored_fields});
    }
  }

  std::size_t num_per_prompt() const { return static_cast<std::size_t>(job_.options.params.n); }
  static std::size_t index_of(const RequestOutput& output) {
    return static_cast<std::size_t>(output.index);
  }

  std::shared_ptr<Exchange> exchange_;
  GenerationJob job_;
  std::unique_ptr<const ChoiceFormat> format_;
  std::int64_t created_;
  std::string id_;
  std::vector<AnsweredOutput> outputs_;                 // of prompt 0, then of prompt 1, ...
  std::vector<std::unique_ptr<AnswerReader>> readers_;  // null where all text is content
  std::vector<std::vector<PositionLogprobs>> prompt_logprobs_;
  TokenUsage usage_;
  Duration step_time_{};
  std::string chunk_head_;  // of every chunk of a stream, up to "choices"
  std::string first_text_;  // goes with the first chunk, behind its choices
  std::string text_;        // reused from chunk to chunk
};

}  // namespace

void append_end_of_choice(std::string& out, const AnsweredOutput& output) {
  fmt::format_to(std::back_inserter(out), R"(,"finish_reason":"{}","stop_reason":{})",
                 output.finish_reason, json::serialize(output.stop_reason));
}

void append_token_ids(std::string& out, std::string_view name, std::span<const TokenId> ids) {
  fmt::format_to(std::back_inserter(out), R"(,"{}":[{}])", name, fmt::join(ids, ","));
}

void append_forced_tokens(std::string& out, const std::vector<bool>& forced) {
  fmt::format_to(std::back_inserter(out), R"(,"forced_tokens":[{}])", fmt::join(forced, ","));
}

void answer_generation(std::shared_ptr<Exchange> exchange, GenerationJob job,
                       std::unique_ptr<const ChoiceFormat> format) {
  std::vector<GenerateRequest> requests;
  for (const AnsweredPrompt& prompt : job.prompts) {
    GenerateRequest& request = requests.emplace_back();
    request.prompt_token_ids = prompt.token_ids;
    request.params = job.options.params;
    request.priority = job.options.queue.priority;
    request.cache_salt = job.options.queue.cache_salt;
    request.user = job.options.queue.user;
    request.deadline = job.options.queue.deadline;
    request.drafts = job.options.drafts;
    if (!prompt.parsing.reads()) continue;
    request.shown_special_tokens =
        job.served->dialect().shown_special_tokens(prompt.parsing.tools != nullptr);
  }
  ServedModel& served = *job.served;
  auto answer = std::make_shared<ChoicesAnswer>(exchange, std::move(job), std::move(format));
  const RequestOrigin origin = answer->origin();
  generate(served, exchange, origin, std::move(requests), std::move(answer));
}

}  // namespace quire
