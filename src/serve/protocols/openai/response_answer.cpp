#include "serve/protocols/openai/response_answer.h"

#include <ctime>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "serve/protocols/openai/fanout.h"
#include "serve/protocols/openai/request_body.h"
#include "serve/protocols/openai/response_input.h"
#include "serve/protocols/openai/token_report.h"
#include "serve/request_origin.h"

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

// Runs on the output thread but for its start; the fanout orders the calls.
class ResponseAnswer : public std::enable_shared_from_this<ResponseAnswer> {
 public:
  ResponseAnswer(Service& service, std::shared_ptr<Exchange> exchange,
                 std::shared_ptr<ResponseStore> store, ResponseJob job)
      : service_(service),
        exchange_(std::move(exchange)),
        store_(std::move(store)),
        job_(std::move(job)),
        item_id_(new_id("msg_")) {}

  void start() {
    std::vector<GenerateRequest> requests(1);
    requests[0].prompt_token_ids = std::move(job_.prompt_token_ids);
    requests[0].params = job_.params;
    requests[0].priority = job_.priority;
    auto self = shared_from_this();
    const auto origin = origin_of(*exchange_, job_.log_id,
                                  std::string(job_.echo.at("model").as_string()), job_.stream);
    auto fanout =
        Fanout::submit(service_, origin, std::move(requests),
                       [self](std::size_t, const RequestOutput& output) { self->take(output); });
    if (!fanout.ok()) {
      return respond_error(*exchange_, request_error(fanout.status(), service_, "input"));
    }
    exchange_->on_disconnect([fanout = *fanout] { fanout->abort(); });
    if (job_.stream) begin_stream();
    (*fanout)->open();
  }

 private:
  enum class Outcome { kInProgress, kCompleted, kIncomplete, kFailed };

  static std::string_view outcome_name(Outcome outcome) {
    switch (outcome) {
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

  // The Response object as it stands.
  json::object response(Outcome outcome) const {
    json::object object = job_.echo;
    object["status"] = outcome_name(outcome);
    object["completed_at"] = nullptr;
    object["error"] = nullptr;
    object["incomplete_details"] = nullptr;
    object["output"] = json::array();
    return object;
  }

  json::object text_part() const { return output_text_part(text_, logprobs_); }

  json::object item(Outcome outcome, json::array content) const {
    return {{"id", item_id_},
            {"type", "message"},
            {"role", "assistant"},
            {"status", outcome_name(outcome)},
            {"content", std::move(content)}};
  }

  void begin_stream() {
    HttpResponse head;
    head.content_type = "text/event-stream; charset=utf-8";
    head.headers = {{"Cache-Control", "no-cache"}};
    add_ignored_fields(head);
    exchange_->start_stream(std::move(head));
    add_event("response.created", {{"response", response(Outcome::kInProgress)}});
    add_event("response.in_progress", {{"response", response(Outcome::kInProgress)}});
    add_event("response.output_item.added",
              {{"output_index", 0}, {"item", item(Outcome::kInProgress, {})}});
    add_event("response.content_part.added", in_part({{"part", text_part()}}));
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

  void add_event(std::string_view type, json::object fields) {
    fields["type"] = type;
    fields["sequence_number"] = next_event_++;
    fmt::format_to(std::back_inserter(events_), "event: {}\ndata: {}\n\n", type,
                   json::serialize(fields));
  }

  void add_delta(std::string_view text, const json::array& logprobs) {
    fmt::format_to(std::back_inserter(events_),
                   R"({},"delta":{},"logprobs":{},"sequence_number":{}}})", delta_head_,
                   json::serialize(json::string_view(text)), json::serialize(logprobs),
                   next_event_++);
    events_ += "\n\n";
  }

  void send() {
    exchange_->write(events_);
    events_.clear();
  }

  void take(const RequestOutput& output) {
    const bool aborted = output.finish_reason == FinishReason::kAbort;
    if (output.finished && !output.error.ok()) return fail(output.error);
    if (output.finished && aborted) {
      return fail(Status::unavailable("the request was ended before its answer was complete"));
    }
    json::array logprobs;
    if (job_.params.logprobs) {
      json::object report = chat_logprobs(service_.engine().tokenizer(), output.logprobs);
      logprobs = std::move(report["content"].as_array());
    }
    text_ += output.text;
    if (job_.stream && (!output.text.empty() || !logprobs.empty())) {
      add_delta(output.text, logprobs);
    }
    logprobs_.insert(logprobs_.end(), std::make_move_iterator(logprobs.begin()),
                     std::make_move_iterator(logprobs.end()));
    if (output.finished) {
      finish(output);
    } else if (!events_.empty()) {
      send();
    }
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
    object["output"].as_array().push_back(item(outcome, {text_part()}));
    object["usage"] = usage_of(output);
    std::string text = json::serialize(object);
    if (job_.store) store(text);
    if (job_.stream) return finish_stream(outcome, std::move(object));
    HttpResponse answer;
    answer.body = std::move(text);
    add_ignored_fields(answer);
    exchange_->respond(std::move(answer));
  }

  void store(const std::string& text) {
    job_.messages.push_back(json::object{{"role", "assistant"}, {"content", text_}});
    store_->put(job_.id, {.response = text,
                          .input_items = json::serialize(job_.input_items),
                          .messages = json::serialize(job_.messages)});
  }

  void finish_stream(Outcome outcome, json::object object) {
    add_event("response.output_text.done", in_part({{"text", text_}, {"logprobs", logprobs_}}));
    add_event("response.content_part.done", in_part({{"part", text_part()}}));
    add_event("response.output_item.done",
              {{"output_index", 0}, {"item", item(outcome, {text_part()})}});
    add_event(outcome == Outcome::kCompleted ? "response.completed" : "response.incomplete",
              {{"response", std::move(object)}});
    send();
    exchange_->finish();
  }

  // The answer cannot be completed: an error in its place, or as the stream's last event.
  void fail(const Status& status) {
    const ApiError error = request_error(status, service_, "input");
    if (!job_.stream) return respond_error(*exchange_, error);
    json::object object = response(Outcome::kFailed);
    object["error"] = {{"code", "server_error"}, {"message", error.message}};
    add_event("response.failed", {{"response", std::move(object)}});
    send();
    exchange_->finish();
  }

  void add_ignored_fields(HttpResponse& response) const {
    if (!job_.ignored_fields.empty()) {
      response.headers.push_back({"X-Ignored-Fields", job_.ignored_fields});
    }
  }

  Service& service_;
  std::shared_ptr<Exchange> exchange_;
  std::shared_ptr<ResponseStore> store_;
  ResponseJob job_;
  std::string item_id_;
  std::string text_;
  json::array logprobs_;
  std::int64_t next_event_ = 0;
  std::string delta_head_;  // of every event of text, up to its text
  std::string events_;      // to be sent; reused
};

}  // namespace

void answer_response(Service& service, std::shared_ptr<Exchange> exchange,
                     std::shared_ptr<ResponseStore> store, ResponseJob job) {
  std::make_shared<ResponseAnswer>(service, std::move(exchange), std::move(store), std::move(job))
      ->start();
}

}  // namespace quire
