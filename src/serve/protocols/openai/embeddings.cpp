#include "serve/protocols/openai/embeddings.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <memory>
#include <openssl/evp.h>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "serve/generation/generation.h"
#include "serve/http/gate.h"
#include "serve/protocols/embedding_vector.h"
#include "serve/protocols/openai/answer_size.h"
#include "serve/protocols/openai/generation_options.h"
#include "serve/protocols/openai/request_body.h"
#include "serve/protocols/queue_fields.h"
#include "serve/requests/request_origin.h"

namespace quire {
namespace {

constexpr std::size_t kMaxInputs = 2048;

struct InputOptions {
  bool add_special_tokens = true;
  std::optional<std::int64_t> truncate;
  ClientGone gone;
};

Result<std::vector<TokenId>> read_token_list(const json::value& value, std::string_view name,
                                             const Engine& engine) {
  std::vector<TokenId> ids;
  const std::int64_t vocab_size = engine.info().vocab_size;
  for (const json::value& item : value.get_array()) {
    if (!item.is_int64() || item.get_int64() < 0 || item.get_int64() >= vocab_size) {
      return Status::invalid_argument(fmt::format("{}: {} is not a token id in [0, {})", name,
                                                  json::serialize(item).substr(0, 40), vocab_size));
    }
    ids.push_back(static_cast<TokenId>(item.get_int64()));
  }
  return ids;
}

Result<std::vector<TokenId>> read_input(const json::value& value, const std::string& name,
                                        const InputOptions& options, const Engine& engine) {
  std::vector<TokenId> ids;
  if (value.is_string()) {
    if (value.get_string().empty()) {
      return Status::invalid_argument(fmt::format("{}: it is empty", name));
    }
    const EncodeLimits limits = options.truncate
                                    ? text_limits(name, options.gone)
                                    : prompt_limits(engine, /*room=*/0, name, options.gone);
    QUIRE_ASSIGN_OR_RETURN(
        ids,
        engine.tokenizer().encode(
            std::string_view(value.get_string()),
            {.add_special_tokens = options.add_special_tokens, .parse_special = false}, limits));
  } else if (is_token_list(value)) {
    QUIRE_ASSIGN_OR_RETURN(ids, read_token_list(value, name, engine));
  } else {
    return Status::invalid_argument(
        fmt::format("{}: expected a string or a list of token ids", name));
  }
  if (ids.empty()) return Status::invalid_argument(fmt::format("{}: it has no tokens", name));
  const std::int64_t most = engine.info().max_model_len;
  const std::int64_t keep = options.truncate.value_or(-1) == -1 ? most : *options.truncate;
  if (options.truncate && std::ssize(ids) > keep) ids.erase(ids.begin(), ids.end() - keep);
  if (std::ssize(ids) > most) {
    return Status::invalid_argument(
        fmt::format("{}: it has {} tokens", name, ids.size()),
        context_remedy(engine, "Shorten it, or set truncate_prompt_tokens"));
  }
  return ids;
}

// Before anything is tokenized: the answer is known to the byte but for digits.
Status check_answer(std::size_t num_inputs, const EmbeddingJob& job, const ServedModel& served) {
  constexpr std::uint64_t kInputBytes = 64;  // {"object":"embedding","index":,"embedding":},
  constexpr std::uint64_t kFloatBytes = 16;  // the longest float and a comma
  const auto dimensions = static_cast<std::uint64_t>(job.dimensions);
  const std::uint64_t vector_bytes =
      job.base64 ? (dimensions * sizeof(float) + 2) / 3 * 4 : dimensions * kFloatBytes;
  return check_answer_bytes(num_inputs * (kInputBytes + vector_bytes),
                            fmt::format("input: {} vectors of {} numbers", num_inputs, dimensions),
                            served);
}

Result<std::vector<std::vector<TokenId>>> read_inputs(const JsonReader& fields,
                                                      const InputOptions& options,
                                                      const EmbeddingJob& job,
                                                      const ServedModel& served) {
  const Engine& engine = served.engine();
  const json::value* value = fields.find("input");
  if (value == nullptr) {
    return Status::invalid_argument("input: expected a string or a list, found nothing");
  }
  std::vector<std::vector<TokenId>> inputs;
  if (!value->is_array() || is_token_list(*value)) {
    QUIRE_ASSIGN_OR_RETURN(auto ids, read_input(*value, "input", options, engine));
    inputs.push_back(std::move(ids));
    return inputs;
  }
  const json::array& list = value->get_array();
  if (list.empty() || list.size() > kMaxInputs) {
    return Status::invalid_argument(
        fmt::format("input: expected 1 to {} inputs, found {}", kMaxInputs, list.size()));
  }
  QUIRE_RETURN_IF_ERROR(check_answer(list.size(), job, served));
  for (std::size_t i = 0; i < list.size(); ++i) {
    QUIRE_ASSIGN_OR_RETURN(auto ids,
                           read_input(list[i], fmt::format("input[{}]", i), options, engine));
    inputs.push_back(std::move(ids));
  }
  return inputs;
}

Result<InputOptions> read_input_options(const JsonReader& fields, std::int64_t max_model_len) {
  InputOptions options;
  QUIRE_ASSIGN_OR_RETURN(const auto special, fields.find_bool("add_special_tokens"));
  options.add_special_tokens = special.value_or(true);
  QUIRE_ASSIGN_OR_RETURN(options.truncate, fields.find_int("truncate_prompt_tokens"));
  if (options.truncate &&
      (*options.truncate < -1 || *options.truncate == 0 || *options.truncate > max_model_len)) {
    return Status::invalid_argument(
        fmt::format("truncate_prompt_tokens: {} is not -1 or a number from 1 to {}",
                    *options.truncate, max_model_len));
  }
  return options;
}

Status read_vector_options(const JsonReader& fields, const EngineInfo& info, EmbeddingJob& job) {
  const std::int64_t hidden_size = info.hidden_size;
  QUIRE_ASSIGN_OR_RETURN(const auto dimensions, fields.find_int("dimensions"));
  job.dimensions = dimensions.value_or(hidden_size);
  if (job.dimensions < 1 || job.dimensions > hidden_size) {
    return Status::invalid_argument(
        fmt::format("dimensions: {} is not a number from 1 to {}, the length of this model's "
                    "vectors",
                    job.dimensions, hidden_size));
  }
  QUIRE_ASSIGN_OR_RETURN(const auto normalize, fields.find_bool("normalize"));
  job.normalize = normalize.value_or(info.embedding.normalize);
  QUIRE_ASSIGN_OR_RETURN(const auto format, fields.find_string("encoding_format"));
  job.base64 = format == "base64";
  if (format && *format != "float" && *format != "base64") {
    return Status::invalid_argument(fmt::format(
        "encoding_format: expected \"float\" or \"base64\", found \"{}\"", format->substr(0, 40)));
  }
  return {};
}

Result<EmbeddingJob> read_embedding(const RequestBody& body, std::string_view request_id,
                                    const ServedModel& served, ClientGone gone) {
  const JsonReader fields = body.reader();
  const Engine& engine = served.engine();
  QUIRE_RETURN_IF_ERROR(engine.info().embedding.check());
  EmbeddingJob job;
  QUIRE_RETURN_IF_ERROR(read_vector_options(fields, engine.info(), job));
  QUIRE_ASSIGN_OR_RETURN(job.priority, read_priority(fields));
  QUIRE_ASSIGN_OR_RETURN(job.cache_salt, read_cache_salt(fields));
  QUIRE_ASSIGN_OR_RETURN(job.user, read_user(fields));
  QUIRE_ASSIGN_OR_RETURN(const auto own_id, fields.find_string("request_id"));
  if (own_id && !valid_request_id(*own_id)) {
    return Status::invalid_argument(
        "request_id: expected 1 to 128 letters, digits, and any of . _ : -");
  }
  job.request_id = own_id.value_or(std::string(request_id));
  QUIRE_RETURN_IF_ERROR(fields.find_string("user").status());
  QUIRE_ASSIGN_OR_RETURN(InputOptions options,
                         read_input_options(fields, engine.info().max_model_len));
  options.gone = std::move(gone);
  QUIRE_ASSIGN_OR_RETURN(job.inputs, read_inputs(fields, options, job, served));
  job.ignored_fields = body.ignored_fields();
  return job;
}

void append_base64(std::string& out, std::span<const float> vector) {
  static_assert(std::endian::native == std::endian::little, "floats are sent as they lie here");
  const std::size_t begin = out.size();
  const std::size_t num_bytes = vector.size_bytes();
  out.resize(begin + (num_bytes + 2) / 3 * 4 + 1);  // and a terminating zero
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data() + begin),
                  reinterpret_cast<const unsigned char*>(vector.data()),
                  static_cast<int>(num_bytes));
  out.pop_back();
}

void append_vector(std::string& out, std::span<const float> vector, bool base64) {
  if (base64) {
    out += '"';
    append_base64(out, vector);
    out += '"';
    return;
  }
  // The shortest digits that give the same float again.
  char separator = '[';
  for (const float value : vector) {
    fmt::format_to(std::back_inserter(out), "{}{}", separator, value);
    separator = ',';
  }
  out += ']';
}

// Gathers the vectors of all inputs.
class EmbeddingAnswer final : public GenerationAnswer {
 public:
  EmbeddingAnswer(std::shared_ptr<Exchange> exchange, EmbeddingJob job)
      : exchange_(std::move(exchange)), job_(std::move(job)), vectors_(job_.inputs.size()) {}

  void refused(const Status& error) override {
    respond_error(*exchange_, request_error(error, *job_.served, "input"));
  }

  void piece(std::size_t input, const RequestOutput& output, bool last) override {
    if (!output.request_finished) return;
    const std::span<const float> state(output.embedding);
    vectors_[input] =
        shaped_embedding(state.first(static_cast<std::size_t>(job_.dimensions)), job_.normalize);
    num_tokens_ += output.num_prompt_tokens;
    step_time_ += output.metrics.step_time;
    if (last) respond();
  }

  void failed(const Status& error) override { refused(error); }

 private:
  void respond() {
    HttpResponse response;
    std::string& body = response.body;
    body = R"({"object":"list","data":[)";
    for (std::size_t i = 0; i < vectors_.size(); ++i) {
      body +=
          fmt::format(R"({}{{"object":"embedding","index":{},"embedding":)", i == 0 ? "" : ",", i);
      append_vector(body, vectors_[i], job_.base64);
      vectors_[i] = {};
      body += '}';
    }
    json::object usage = {{"prompt_tokens", num_tokens_}, {"total_tokens", num_tokens_}};
    if (const auto cost = job_.served->cost_of(step_time_)) usage["cost"] = *cost;
    body += fmt::format(R"(],"model":{},"usage":{}}})",
                        json::serialize(json::string_view(job_.model)), json::serialize(usage));
    if (!job_.ignored_fields.empty()) {
      response.headers.push_back({"X-Ignored-Fields", job_.ignored_fields});
    }
    exchange_->respond(std::move(response));
  }

  std::shared_ptr<Exchange> exchange_;
  EmbeddingJob job_;
  std::vector<std::vector<float>> vectors_;  // in the order of the inputs
  std::int64_t num_tokens_ = 0;
  Duration step_time_{};
};

void answer_embedding(std::shared_ptr<Exchange> exchange, EmbeddingJob job) {
  std::vector<GenerateRequest> requests;
  for (std::vector<TokenId>& input : job.inputs) {
    GenerateRequest& request = requests.emplace_back();
    request.prompt_token_ids = std::move(input);
    request.priority = job.priority;
    request.cache_salt = job.cache_salt;
    request.user = job.user;
    request.embed = true;
  }
  ServedModel& served = *job.served;
  const RequestOrigin origin =
      origin_of(*exchange, "embd-" + job.request_id, job.model, /*stream=*/false);
  generate(served, exchange, origin, std::move(requests),
           std::make_shared<EmbeddingAnswer>(exchange, std::move(job)));
}

}  // namespace

std::variant<EmbeddingJob, ApiError> parse_embedding_request(std::string_view body,
                                                             std::string_view request_id,
                                                             const Service& service,
                                                             ClientGone gone) {
  auto parsed = RequestBody::parse(body, embedding_fields(), service);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  const auto& request = std::get<RequestBody>(parsed);
  auto named = read_model(request, service);
  if (auto* error = std::get_if<ApiError>(&named)) return std::move(*error);
  auto& model = std::get<RequestedModel>(named);
  const ServedModel& served = *model.served;
  auto job = read_embedding(request, request_id, served, std::move(gone));
  if (!job.ok()) return request_error(job.status(), served, "input");
  job->model = std::move(model.name);
  job->served = model.served;
  return *std::move(job);
}

std::vector<Route> embedding_routes(Service& service) {
  const auto handle = [&service](std::shared_ptr<Exchange> exchange) {
    const HttpRequest& request = exchange->request();
    auto job = parse_embedding_request(request.body, request.request_id, service,
                                       [exchange = exchange.get()] { return exchange->gone(); });
    if (const auto* error = std::get_if<ApiError>(&job)) return respond_error(*exchange, *error);
    answer_embedding(std::move(exchange), std::get<EmbeddingJob>(std::move(job)));
  };
  std::vector<Route> routes;
  routes.push_back(
      {.method = "POST", .pattern = "/v1/embeddings", .handler = handle, .metered = true});
  return routes;
}

}  // namespace quire
