#include "serve/protocols/openai/response_answer.h"

#include <ctime>
#include <iterator>
#include <new>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "serve/generation/generation.h"
#include "serve/protocols/openai/request_body.h"
#include "serve/protocols/openai/response_items.h"
#include "serve/protocols/openai/token_report.h"
#include "serve/requests/request_origin.h"

namespace quire {
namespace {

json::object usage_of(const RequestOutput& output, std::int64_t reasoning_tokens,
                      std::optional<double> cost) {
  json::object usage = {{"input_tokens", output.num_prompt_tokens},
                        {"input_tokens_details",
                         {{"cached_tokens", output.num_cached_tokens}, {"cache_write_tokens", 0}}},
                        {"output_tokens", output.num_output_tokens},
                        {"output_tokens_details", {{"reasoning_tokens", reasoning_tokens}}},
                        {"total_tokens", output.num_prompt_tokens + output.num_output_tokens}};
  if (cost) usage["cost"] = *cost;
  return usage;
}

class ResponseAnswer final : public GenerationAnswer {
 public:
  ResponseAnswer(std::shared_ptr<Exchange> exchange, std::shared_ptr<ResponseStore> store,
                 ResponseJob job)
      : exchange_(std::move(exchange)), store_(std::move(store)), job_(std::move(job)) {
    if (job_.parsing.reads()) reader_ = std::make_unique<AnswerReader>(job_.parsing);
  }

  // Before it is submitted: it goes to a stream of its own, and what is kept of it with it.
  void run_in_background(std::shared_ptr<BackgroundResponse> background) {
    background->keep(stored({}));
    background_ = std::move(background);
    exchange_ = background_;
  }
  json::object as_queued() const { return response(Outcome::kQueued); }

  void refused(const Status& error) override {
    respond_error(*exchange_, request_error(error, *job_.served, "input"));
  }

  void begun() override {
    if (streams()) begin_stream();
    if (streams() && background_ == nullptr) begin_output();
  }

  void piece(std::size_t /*prompt*/, const RequestOutput& output, bool /*last*/) override {
    if (streams() && !output_begun_) begin_output();
    std::string logprobs;
    if (job_.params.logprobs) {
      append_chat_tokens(logprobs, job_.served->engine().tokenizer(), output.logprobs);
    }
    if (reader_ == nullptr) {
      items_.add_text(output.text, logprobs);
    } else {
      read(output, std::move(logprobs));
    }
    if (output.finished) {
      finish(output);
    } else if (!events_.empty()) {
      send();
    }
  }

  // An error in the answer's place, or as the stream's last event.
  void failed(const Status& status) override {
    if (!streams()) return refused(status);
    json::object object = response(Outcome::kFailed);
    object["error"] = {{"code", "server_error"},
                       {"message", request_error(status, *job_.served, "input").message}};
    const std::string text = with_member(object, "output", "[]");
    if (background_ != nullptr) background_->keep(stored(text));
    events_.add("response.failed", {}, "response", text);
    send();
    exchange_->finish();
  }

 private:
  // Log probabilities go with the message's text; those of what is none have no place in a
  // Response.
  void read(const RequestOutput& output, std::string logprobs) {
    if (!waiting_logprobs_.empty() && !logprobs.empty()) waiting_logprobs_ += ',';
    waiting_logprobs_ += logprobs;
    waiting_tokens_ += std::ssize(output.token_ids);
    const auto events = reader_->read(output.text, output.finished);
    if (events.empty()) return;
    if (events.front().kind == OutputEvent::Kind::kReasoning) reasoning_tokens_ += waiting_tokens_;
    waiting_tokens_ = 0;
    for (const OutputEvent& event : events) {
      if (event.kind == OutputEvent::Kind::kContent) {
        items_.add_text(event.text, std::exchange(waiting_logprobs_, {}));
      } else {
        items_.add(event);
      }
    }
    waiting_logprobs_.clear();
  }

  enum class Outcome { kQueued, kInProgress, kCompleted, kIncomplete, kFailed };

  static std::string_view outcome_name(Outcome outcome) {
    switch (outcome) {
      case Outcome::kQueued:
        return "queued";
      case Outcome::kInProgress:
        return "in_progress";
      case Outcome::kCompleted:
        return "completed";
      case Outcome::kIncomplete:
        return "incomplete";
      case Outcome::kFailed:
        return "failed";
    }
    return "failed";
  }

  // The Response object as it stands, without its output.
  json::object response(Outcome outcome) const {
    json::object object = job_.echo;
    object["status"] = outcome_name(outcome);
    object["completed_at"] = nullptr;
    object["error"] = nullptr;
    object["incomplete_details"] = nullptr;
    object["usage"] = nullptr;  // until it is complete
    return object;
  }

  void begin_stream() {
    HttpResponse head;
    head.content_type = "text/event-stream; charset=utf-8";
    head.headers = {{"Cache-Control", "no-cache"}};
    add_ignored_fields(head);
    exchange_->start_stream(std::move(head));
    const bool waits = background_ != nullptr;
    const std::string response = without_output(waits ? Outcome::kQueued : Outcome::kInProgress);
    events_.add("response.created", {}, "response", response);
    if (waits) {
      events_.add("response.queued", {}, "response", response);
      send();
    }
  }

  void begin_output() {
    output_begun_ = true;
    events_.add("response.in_progress", {}, "response", without_output(Outcome::kInProgress));
    items_.tell(&events_);
    // What a dialect reads may begin with something else.
    if (reader_ == nullptr) items_.open_message();
    send();
  }

  std::string without_output(Outcome outcome) const {
    return with_member(response(outcome), "output", "[]");
  }

  void send() {
    exchange_->write(events_.text());
    events_.clear();
  }

  void finish(const RequestOutput& output) {
    const Outcome outcome =
        output.finish_reason == FinishReason::kLength ? Outcome::kIncomplete : Outcome::kCompleted;
    json::object object = response(outcome);
    if (outcome == Outcome::kIncomplete) {
      object["incomplete_details"] = {{"reason", "max_output_tokens"}};
    } else {
      object["completed_at"] = std::time(nullptr);
    }
    object["usage"] =
        usage_of(output, reasoning_tokens_, job_.served->cost_of(output.metrics.step_time));
    items_.close(outcome == Outcome::kCompleted);
    std::string text = with_member(object, "output", '[' + items_.json() + ']');
    job_.messages.push_back(items_.message());
    if (background_ != nullptr) {
      background_->keep(stored(text));
    } else if (job_.store) {
      store_->put(job_.id, stored(text));
    }
    if (streams()) return finish_stream(outcome, text);
    HttpResponse answer;
    answer.body = std::move(text);
    add_ignored_fields(answer);
    exchange_->respond(std::move(answer));
  }

  // `text`: of the Response object.
  StoredResponse stored(std::string text) const {
    return {.response = std::move(text),
            .input_items = json::serialize(job_.input_items),
            .messages = json::serialize(job_.messages)};
  }

  // What runs in the background always does; who follows it is not this answer's business.
  bool streams() const { return job_.stream || background_ != nullptr; }

  // `response`: the whole Response object.
  void finish_stream(Outcome outcome, std::string_view response) {
    events_.add(outcome == Outcome::kCompleted ? "response.completed" : "response.incomplete", {},
                "response", response);
    send();
    exchange_->finish();
  }

  void add_ignored_fields(HttpResponse& response) const {
    if (!job_.ignored_fields.empty()) {
      response.headers.push_back({"X-Ignored-Fields", job_.ignored_fields});
    }
  }

  std::shared_ptr<Exchange> exchange_;
  std::shared_ptr<ResponseStore> store_;
  std::shared_ptr<BackgroundResponse> background_;  // then it is exchange_, too; else null
  ResponseJob job_;
  std::unique_ptr<AnswerReader> reader_;  // null where all text is the message's
  std::string waiting_logprobs_;          // of text that the reader keeps back
  std::int64_t waiting_tokens_ = 0;       // of that, too
  std::int64_t reasoning_tokens_ = 0;
  ResponseItems items_;
  ResponseEvents events_;
  bool output_begun_ = false;
};

}  // namespace

void answer_response(std::shared_ptr<Exchange> exchange, std::shared_ptr<ResponseStore> store,
                     std::shared_ptr<BackgroundResponses> live, ResponseJob job) {
  std::vector<GenerateRequest> requests(1);
  requests[0].prompt_token_ids = std::move(job.prompt_token_ids);
  requests[0].params = job.params;
  requests[0].priority = job.priority;
  requests[0].cache_salt = job.cache_salt;
  requests[0].user = job.user;
  requests[0].drafts = job.drafts;
  if (job.parsing.reads()) {
    requests[0].shown_special_tokens =
        job.served->dialect().shown_special_tokens(job.parsing.tools != nullptr);
  }
  ServedModel& served = *job.served;
  const RequestOrigin origin =
      origin_of(*exchange, job.log_id, std::string(job.echo.at("model").as_string()), job.stream);
  const std::string id = job.id;
  const bool follows = job.stream;
  const bool in_background = job.background;
  auto answer = std::make_shared<ResponseAnswer>(exchange, store, std::move(job));
  if (!in_background) {
    return generate(served, exchange, origin, std::move(requests), std::move(answer));
  }
  const auto background = std::make_shared<BackgroundResponse>(id, answer->as_queued(), exchange,
                                                               follows, live, std::move(store));
  if (!live->add(id, background)) {
    return respond_error(
        *exchange,
        request_error(Status::resource_exhausted(fmt::format(
                          "background: {} responses run in the background, which is the limit",
                          BackgroundResponses::kMaxLive)),
                      served, "background"));
  }
  try {
    answer->run_in_background(background);
    generate(served, background, origin, std::move(requests), std::move(answer));
  } catch (const std::bad_alloc&) {
    live->remove(id);
    throw;
  }
}

}  // namespace quire
