#include "serve/protocols/llamacpp/llamacpp_answer.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "serve/generation/generation.h"
#include "serve/protocols/openai/request_body.h"
#include "serve/requests/request_origin.h"

namespace quire {
namespace {

std::string_view stop_type(const RequestOutput& output) {
  if (output.finish_reason == FinishReason::kLength) return "limit";
  return output.stop_string ? "word" : "eos";
}

// {"prompt_n", "prompt_ms", "predicted_n", "predicted_ms", ..._per_second}
json::object timings(const RequestOutput& last) {
  const RequestMetrics& times = last.metrics;
  const Instant begin = times.first_scheduled.value_or(times.arrival);
  const Instant first = times.first_token.value_or(begin);
  const double prompt_s = to_seconds(first - begin);
  const double output_s = to_seconds(times.finished.value_or(first) - first);
  const auto rate = [](std::int64_t count, double seconds) {
    return seconds > 0 ? static_cast<double>(count) / seconds : 0.0;
  };
  const std::int64_t computed = last.num_prompt_tokens - last.num_cached_tokens;
  return {{"cache_n", last.num_cached_tokens},
          {"prompt_n", computed},
          {"prompt_ms", prompt_s * 1e3},
          {"prompt_per_second", rate(computed, prompt_s)},
          {"predicted_n", last.num_output_tokens},
          {"predicted_ms", output_s * 1e3},
          {"predicted_per_second", rate(last.num_output_tokens - 1, output_s)}};
}

class LlamaAnswer final : public GenerationAnswer {
 public:
  LlamaAnswer(std::shared_ptr<Exchange> exchange, GenerationJob job)
      : exchange_(std::move(exchange)), job_(std::move(job)) {}

  void refused(const Status& error) override {
    respond_error(*exchange_, request_error(error, *job_.served, "prompt"));
  }

  void begun() override {
    if (!job_.options.stream) return;
    HttpResponse head;
    head.content_type = "text/event-stream; charset=utf-8";
    head.headers = {{"Cache-Control", "no-cache"}};
    add_ignored_fields(head);
    exchange_->start_stream(std::move(head));
  }

  void piece(std::size_t /*prompt*/, const RequestOutput& output, bool last) override {
    if (!job_.drop_output) text_ += output.text;
    if (job_.options.stream) {
      if (last || !text_.empty()) send(last ? final_object(output) : partial_object());
      text_.clear();
      if (last) exchange_->finish();
    } else if (last) {
      HttpResponse response;
      response.body = json::serialize(final_object(output));
      add_ignored_fields(response);
      exchange_->respond(std::move(response));
    }
  }

  void failed(const Status& error) override {
    if (!job_.options.stream) return refused(error);
    send(error_body(request_error(error, *job_.served, "prompt")));
    exchange_->finish();
  }

 private:
  json::object partial_object() const {
    return {{"index", 0}, {"content", text_}, {"id_slot", 0}, {"stop", false}};
  }

  json::object final_object(const RequestOutput& last) const {
    json::object answer = {{"index", 0},
                           {"content", text_},
                           {"id_slot", 0},
                           {"stop", true},
                           {"model", job_.model},
                           {"tokens_predicted", job_.drop_output ? 0 : last.num_output_tokens},
                           {"tokens_evaluated", last.num_prompt_tokens},
                           {"tokens_cached", last.num_cached_tokens},
                           {"truncated", false},
                           {"has_new_line", text_.find('\n') != std::string::npos},
                           {"stop_type", job_.drop_output ? "limit" : stop_type(last)},
                           {"stopping_word", last.stop_string.value_or("")},
                           {"timings", timings(last)}};
    if (const auto cost = job_.served->cost_of(last.metrics.step_time)) answer["cost"] = *cost;
    return answer;
  }

  void send(const json::object& event) {
    exchange_->write(fmt::format("data: {}\n\n", json::serialize(event)));
  }

  void add_ignored_fields(HttpResponse& response) const {
    if (!job_.ignored_fields.empty()) {
      response.headers.push_back({"X-Ignored-Fields", job_.ignored_fields});
    }
  }

  std::shared_ptr<Exchange> exchange_;
  GenerationJob job_;
  std::string text_;  // of a stream what has not been sent
};

}  // namespace

void answer_llama(std::shared_ptr<Exchange> exchange, GenerationJob job) {
  std::vector<GenerateRequest> requests(1);
  requests[0].prompt_token_ids = job.prompts[0].token_ids;
  requests[0].params = job.options.params;
  ServedModel& served = *job.served;
  const RequestOrigin origin =
      origin_of(*exchange, "cmpl-" + exchange->request().request_id, job.model, job.options.stream);
  generate(served, exchange, origin, std::move(requests),
           std::make_shared<LlamaAnswer>(exchange, std::move(job)));
}

}  // namespace quire
