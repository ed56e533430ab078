// Any bytes as the body of a request to one of the protocols' routes, which the first byte chooses:
// a job that an engine can be given as it is, or an error in OpenAI's shape that is the client's
// fault and says so.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "apps/simulated_engine.h"
#include "serve/http/test_exchange.h"
#include "serve/protocols/openai/chat_completions.h"
#include "serve/protocols/openai/completions.h"
#include "serve/protocols/openai/embeddings.h"
#include "serve/protocols/openai/prefixes.h"
#include "serve/protocols/openai/response_request.h"
#include "serve/protocols/openai/tokenization.h"
#include "serve/service.h"

namespace {

using quire::ApiError;
using quire::GenerationJob;
using quire::Service;

void check(bool holds) {
  if (!holds) std::abort();
}

// A service over a tiny model's tokenizer, template and limits. Lives as long as the program.
Service& service() {
  static Service& made = [&]() -> Service& {
    quire::SimulatedEngineArgs args;
    args.engine.model = QUIRE_SOURCE_DIR "/tests/data/tiny_llama/hf";
    auto engine = quire::create_simulated_engine(args, {});
    if (!engine.ok()) {
      std::fprintf(stderr, "%s\n", engine.status().to_string().c_str());
      std::abort();
    }
    static Service kService(*std::move(engine),
                            {.served_model_names = {"tiny"}, .log_requests = false},
                            std::make_shared<quire::StepWatch>());
    return kService;
  }();
  return made;
}

void check_error_body(std::string_view body) {
  const auto value = quire::parse_json(body, "error");
  check(value.ok() && value->is_object());
  const auto* error = value->get_object().if_contains("error");
  check(error != nullptr && error->is_object());
  const auto* message = error->get_object().if_contains("message");
  check(message != nullptr && message->is_string() && !message->get_string().empty());
}

void check_error(const ApiError& error) {
  check(error.status >= 400 && error.status < 500);
  check_error_body(quire::json::serialize(quire::error_body(error)));
}

void check_header(std::string_view value) {
  check(std::ranges::none_of(value, [](char c) { return static_cast<unsigned char>(c) < 0x20; }));
}

void check_params(const quire::SamplingParams& params) {
  const auto vocab_size = service().model().engine().info().vocab_size;
  check(params.validate(vocab_size, service().model().max_logprobs()).ok());
}

void check_job(const std::variant<GenerationJob, ApiError>& parsed) {
  if (const auto* error = std::get_if<ApiError>(&parsed)) return check_error(*error);
  const auto& job = std::get<GenerationJob>(parsed);
  check(!job.prompts.empty());
  check(static_cast<std::int64_t>(job.prompts.size()) * job.options.params.n <= 4096);
  for (const auto& prompt : job.prompts) check(!prompt.token_ids.empty());
  check_params(job.options.params);
  check_header(job.ignored_fields);
}

void check_response_job(std::string_view body) {
  quire::ResponseStore store;
  const auto parsed = quire::parse_response_request(body, service(), store);
  if (const auto* error = std::get_if<ApiError>(&parsed)) return check_error(*error);
  const auto& job = std::get<quire::ResponseJob>(parsed);
  check(!job.prompt_token_ids.empty());
  check_params(job.params);
  check_header(job.ignored_fields);
  check(quire::parse_json(quire::json::serialize(job.echo), "echo").ok());
}

void check_embedding_job(std::string_view body) {
  const auto parsed = quire::parse_embedding_request(body, "req-1", service());
  if (const auto* error = std::get_if<ApiError>(&parsed)) return check_error(*error);
  const auto& job = std::get<quire::EmbeddingJob>(parsed);
  check(!job.inputs.empty());
  for (const auto& input : job.inputs) check(!input.empty());
  check(job.dimensions >= 1 && job.dimensions <= service().model().engine().info().hidden_size);
  check_header(job.ignored_fields);
}

void check_prefix_job(std::string_view body) {
  const auto parsed = quire::parse_prefix_request(body, "someone", service());
  if (const auto* error = std::get_if<ApiError>(&parsed)) return check_error(*error);
  const auto& job = std::get<quire::PrefixJob>(parsed);
  check(job.request.pin && job.request.pin->owner == "someone");
  check(!job.request.prompt_token_ids.empty());
  check_header(job.ignored_fields);
}

// These answer at once, so the whole route is run.
void check_tokenization(const std::string& path, std::string_view body) {
  static const std::vector<quire::Route> kRoutes = quire::tokenization_routes(service());
  const auto route = std::ranges::find(kRoutes, path, &quire::Route::pattern);
  check(route != kRoutes.end());
  const auto exchange = quire::TestExchange::post(path, std::string(body));
  route->handler(exchange);
  const quire::HttpResponse answer = exchange->wait();
  if (answer.status == 200) {
    check(quire::parse_json(answer.body, "answer").ok());
  } else {
    check(answer.status >= 400 && answer.status < 500);
    check_error_body(answer.body);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  bool echo = false;
  std::string role;
  switch (data[0] % 7) {
    case 0:
      check_job(quire::parse_completion_request(body, service(), echo));
      break;
    case 1:
      check_job(quire::parse_chat_request(body, service(), role));
      break;
    case 2:
      check_response_job(body);
      break;
    case 3:
      check_embedding_job(body);
      break;
    case 4:
      check_tokenization("/tokenize", body);
      break;
    case 5:
      check_tokenization("/detokenize", body);
      break;
    default:
      check_prefix_job(body);
  }
  return 0;
}
