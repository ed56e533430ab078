#include "serve/protocols/openai/response_answer.h"

#include <ctime>
#include <iterator>
#include <new>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "serve/generation/generation.h"
#include "serve/protocols/openai/request_body.h"
#include "serve/protocols/openai/response_input.h"
#include "serve/protocols/openai/token_report.h"
#include "serve/requests/request_origin.h"

namespace quire {
namespace {

json::object usage_of(const RequestOutput& output) {
  return {{"input_tokens", output.num_prompt_tokens},
          {"input_tokens_details",
           {{"cached_tokens", output.num_cached_tokens}, {"cache_write_tokens", 0}}},
          {"output_tokens", output.num_output_tokens},
          {"output_tokens_details", {{"reasoning_tokens", 0}}},
          {"total_tokens", output.num_prompt_tokens + output.num_output_tokens}};
}

// The JSON text of `object` and one member more, whose value is JSON text already.
std::string with_member(const json::object& object, std::string_view name, std::string_view value) {
  std::string text = json::serialize(object);
  text.pop_back();  // its brace
  fmt::format_to(std::back_inserter(text), R"({}"{}":{}}})", object.empty() ? "" : ",", name,
                 value);
  return text;
}

class ResponseAnswer final : public GenerationAnswer {
 public:
  ResponseAnswer(std::shared_ptr<Exchange> exchange, std::shared_ptr<ResponseStore> store,
                 ResponseJob job)
      : exchange_(std::move(exchange)),
        store_(std::move(store)),
        job_(std::move(job)),
        item_id_(new_id("msg_")) {}

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
    if (streams() && delta_head_.empty()) begin_output();
    std::string logprobs;
    if (job_.params.logprobs) {
      append_chat_tokens(logprobs, job_.served->engine().tokenizer(), output.logprobs);
    }
    text_ += output.text;
    if (streams() && (!output.text.empty() || !logprobs.empty())) {
      add_delta(output.text, logprobs);
    }
    if (!logprobs_.empty() && !logprobs.empty()) logprobs_ += ',';
    logprobs_ += logprobs;
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
    add_event("response.failed", {}, "response", text);
    send();
    exchange_->finish();
  }

 private:
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

  // What has the output's text is put together as text: log probabilities are most of an answer,
  // and a tree of values takes several times their text.
  std::string text_part() const {
    json::object part = output_text_part(text_);
    part.erase("logprobs");
    return with_member(part, "logprobs", '[' + logprobs_ + ']');
  }

  // `content`: JSON text of what is in the list.
  std::string item(Outcome outcome, std::string_view content) const {
    const json::object item = {{"id", item_id_},
                               {"type", "message"},
                               {"role", "assistant"},
                               {"status", outcome_name(outcome)}};
    return with_member(item, "content", fmt::format("[{}]", content));
  }

  void begin_stream() {
    HttpResponse head;
    head.content_type = "text/event-stream; charset=utf-8";
    head.headers = {{"Cache-Control", "no-cache"}};
    add_ignored_fields(head);
    exchange_->start_stream(std::move(head));
    const bool waits = background_ != nullptr;
    const std::string response = without_output(waits ? Outcome::kQueued : Outcome::kInProgress);
    add_event("response.created", {}, "response", response);
    if (waits) {
      add_event("response.queued", {}, "response", response);
      send();
    }
  }

  void begin_output() {
    add_event("response.in_progress", {}, "response", without_output(Outcome::kInProgress));
    add_event("response.output_item.added", {{"output_index", 0}}, "item",
              item(Outcome::kInProgress, ""));
    add_event("response.content_part.added", in_part({}), "part", text_part());
    send();
    delta_head_ = fmt::format(
        "event: response.output_text.delta\ndata: "
        R"({{"type":"response.output_text.delta","item_id":"{}","output_index":0,"content_index":0)",
        item_id_);
  }

  // What the events about the text have in common.
  json::object in_part(json::object fields) const {
    fields["item_id"] = item_id_;
    fields["output_index"] = 0;
    fields["content_index"] = 0;
    return fields;
  }

  // `value`: the JSON text of the member `name`.
  void add_event(std::string_view type, json::object fields, std::string_view name,
                 std::string_view value) {
    fields["type"] = type;
    fields["sequence_number"] = next_event_++;
    // As one piece: without memory there is no half of an event.
    events_ += fmt::format("event: {}\ndata: {}\n\n", type, with_member(fields, name, value));
  }

  void add_delta(std::string_view text, std::string_view logprobs) {
    fmt::format_to(std::back_inserter(events_),
                   R"({},"delta":{},"logprobs":[{}],"sequence_number":{}}})", delta_head_,
                   json::serialize(json::string_view(text)), logprobs, next_event_++);
    events_ += "\n\n";
  }

  std::string without_output(Outcome outcome) const {
    return with_member(response(outcome), "output", "[]");
  }

  void send() {
    exchange_->write(events_);
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
    object["usage"] = usage_of(output);
    std::string text = with_member(object, "output", '[' + item(outcome, text_part()) + ']');
    job_.messages.push_back(json::object{{"role", "assistant"}, {"content", text_}});
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
    add_event("response.output_text.done", in_part({{"text", text_}}), "logprobs",
              '[' + logprobs_ + ']');
    add_event("response.content_part.done", in_part({}), "part", text_part());
    add_event("response.output_item.done", {{"output_index", 0}}, "item",
              item(outcome, text_part()));
    add_event(outcome == Outcome::kCompleted ? "response.completed" : "response.incomplete", {},
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
  std::string item_id_;
  std::string text_;
  std::string logprobs_;  // JSON text of what is in their list
  std::int64_t next_event_ = 0;
  std::string delta_head_;  // of every event of text, up to its text
  std::string events_;      // to be sent; reused
};

}  // namespace

void answer_response(std::shared_ptr<Exchange> exchange, std::shared_ptr<ResponseStore> store,
                     std::shared_ptr<BackgroundResponses> live, ResponseJob job) {
  std::vector<GenerateRequest> requests(1);
  requests[0].prompt_token_ids = std::move(job.prompt_token_ids);
  requests[0].params = job.params;
  requests[0].priority = job.priority;
  requests[0].drafts = job.drafts;
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
