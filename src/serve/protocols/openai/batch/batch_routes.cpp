#include "serve/protocols/openai/batch/batch_routes.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/json.h"
#include "serve/protocols/openai/batch/storage_error.h"
#include "serve/protocols/openai/request_body.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 4> kEndpoints = {"/v1/chat/completions", "/v1/completions",
                                                        "/v1/embeddings", "/v1/responses"};
constexpr std::array<std::string_view, 5> kFields = {
    "input_file_id", "endpoint", "completion_window", "metadata", "output_expires_after"};
constexpr std::int64_t kMaxListedBatches = 100;
constexpr std::int64_t kDefaultListed = 20;
constexpr std::int64_t kMinLifetime = 3600;
constexpr std::int64_t kMaxLifetime = 30 * 24 * 3600;
constexpr std::size_t kMaxMetadata = 16;
constexpr std::size_t kMaxMetadataKey = 64;
constexpr std::size_t kMaxMetadataValue = 512;

json::object usage_object(const BatchUsage& usage) {
  return {{"input_tokens", usage.input_tokens},
          {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"output_tokens", usage.output_tokens},
          {"output_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
          {"total_tokens", usage.input_tokens + usage.output_tokens}};
}

// JSON that was written here, and so is valid.
json::value stored_json(std::string_view text) {
  auto value = parse_json(text, "database");
  return value.ok() ? std::move(*value) : json::value();
}

// Fields that say nothing yet are left out: OpenAI's schema has no null for them.
json::object batch_object(const BatchInfo& batch) {
  json::object object = {
      {"id", batch.id},
      {"object", "batch"},
      {"endpoint", batch.endpoint},
      {"input_file_id", batch.input_file_id},
      {"completion_window", "24h"},
      {"status", batch.status},
      {"created_at", batch.created_at},
      {"expires_at", batch.expires_at},
      {"request_counts",
       {{"total", batch.total}, {"completed", batch.completed}, {"failed", batch.failed}}},
      {"usage", usage_object(batch.usage)},
      {"metadata", stored_json(batch.metadata)}};
  if (batch.errors) {
    object["errors"] = json::object{{"object", "list"}, {"data", stored_json(*batch.errors)}};
  }
  if (batch.output_file_id) object["output_file_id"] = *batch.output_file_id;
  if (batch.error_file_id) object["error_file_id"] = *batch.error_file_id;
  const std::pair<std::string_view, std::optional<std::int64_t>> times[] = {
      {"in_progress_at", batch.in_progress_at}, {"finalizing_at", batch.finalizing_at},
      {"completed_at", batch.completed_at},     {"failed_at", batch.failed_at},
      {"expired_at", batch.expired_at},         {"cancelling_at", batch.cancelling_at},
      {"cancelled_at", batch.cancelled_at}};
  for (const auto& [name, time] : times) {
    if (time) object[name] = *time;
  }
  return object;
}

void respond_batch(Exchange& exchange, const Result<BatchInfo>& batch) {
  if (!batch.ok()) return respond_error(exchange, storage_error(batch.status()));
  exchange.respond({.body = json::serialize(batch_object(*batch))});
}

Result<std::string> read_metadata(const JsonReader& fields) {
  const json::value* value = fields.find("metadata");
  if (value == nullptr) return std::string("null");
  const bool right = value->is_object() && value->get_object().size() <= kMaxMetadata &&
                     std::ranges::all_of(value->get_object(), [](const auto& entry) {
                       return entry.key().size() <= kMaxMetadataKey && entry.value().is_string() &&
                              entry.value().get_string().size() <= kMaxMetadataValue;
                     });
  if (!right) {
    return Status::invalid_argument(
        fmt::format("metadata: expected at most {} strings of at most {} bytes, with keys of at "
                    "most {}",
                    kMaxMetadata, kMaxMetadataValue, kMaxMetadataKey));
  }
  return json::serialize(*value);
}

Result<std::int64_t> read_output_lifetime(const JsonReader& fields) {
  if (!fields.contains("output_expires_after")) return kMaxLifetime;
  QUIRE_ASSIGN_OR_RETURN(const JsonReader after, fields.get_object("output_expires_after"));
  QUIRE_ASSIGN_OR_RETURN(const std::string anchor, after.get_string("anchor"));
  QUIRE_ASSIGN_OR_RETURN(const std::int64_t lifetime, after.get_int("seconds"));
  if (anchor != "created_at" || lifetime < kMinLifetime || lifetime > kMaxLifetime) {
    return Status::invalid_argument(
        fmt::format("output_expires_after: expected the anchor created_at and {} to {} seconds",
                    kMinLifetime, kMaxLifetime));
  }
  return lifetime;
}

Result<BatchStore::NewBatch> read_batch(const JsonReader& fields, const EndpointHandlers& served) {
  BatchStore::NewBatch batch;
  QUIRE_ASSIGN_OR_RETURN(batch.input_file_id, fields.get_string("input_file_id"));
  QUIRE_ASSIGN_OR_RETURN(batch.endpoint, fields.get_string("endpoint"));
  QUIRE_ASSIGN_OR_RETURN(const std::string window, fields.get_string("completion_window"));
  if (window != "24h") return Status::invalid_argument("completion_window: expected \"24h\"");
  if (std::ranges::find(kEndpoints, batch.endpoint) == kEndpoints.end() ||
      served(batch.endpoint) == nullptr) {
    return Status::invalid_argument(
        fmt::format("endpoint: batches cannot use \"{}\" on this server",
                    std::string_view(batch.endpoint).substr(0, 64)));
  }
  QUIRE_ASSIGN_OR_RETURN(batch.metadata, read_metadata(fields));
  QUIRE_ASSIGN_OR_RETURN(batch.output_expires_after, read_output_lifetime(fields));
  return batch;
}

// The field that a message of read_batch() begins with.
std::optional<std::string> field_of(std::string_view message) {
  for (const std::string_view prefix : {"request: ", "the key \""}) {
    if (message.starts_with(prefix)) message.remove_prefix(prefix.size());
  }
  for (const std::string_view field : kFields) {
    if (message.starts_with(field)) return std::string(field);
  }
  return std::nullopt;
}

void create_batch(const BatchRoutesContext& context, Exchange& exchange) {
  auto parsed = RequestBody::parse(
      exchange.request().body, plain_fields("POST /v1/batches", kFields), context.strict_fields);
  if (const auto* error = std::get_if<ApiError>(&parsed)) return respond_error(exchange, *error);
  const auto& body = std::get<RequestBody>(parsed);
  const auto batch = read_batch(body.reader(), context.handlers);
  if (!batch.ok()) {
    return respond_error(exchange,
                         to_api_error(batch.status(), field_of(batch.status().message())));
  }
  const auto file = context.files.get(batch->input_file_id);
  if (!file.ok()) {
    return respond_error(exchange, storage_error(file.status(), "input_file_id"));
  }
  if (file->purpose != "batch") {
    return respond_error(
        exchange,
        bad_field("input_file_id", "input_file_id: the file's purpose has to be 'batch'"));
  }
  const auto created = context.batches.create(*batch, context.now());
  if (!created.ok()) {
    return respond_error(exchange, storage_error(created.status(), "input_file_id"));
  }
  context.worker.wake();
  HttpResponse response{.body = json::serialize(batch_object(*created))};
  if (const std::string ignored = body.ignored_fields(); !ignored.empty()) {
    response.headers.push_back({"X-Ignored-Fields", ignored});
  }
  exchange.respond(std::move(response));
}

void list_batches(const BatchRoutesContext& context, Exchange& exchange) {
  const HttpRequest& request = exchange.request();
  const auto limit = read_limit(request, kMaxListedBatches, kDefaultListed);
  if (!limit.ok()) return respond_error(exchange, to_api_error(limit.status(), "limit"));
  std::optional<std::string> after;
  if (const std::string* given = request.query_param("after")) after = *given;
  const auto page = context.batches.list(after, *limit);
  if (!page.ok()) return respond_error(exchange, storage_error(page.status(), "after"));
  json::array data;
  for (const BatchInfo& batch : page->items) data.push_back(batch_object(batch));
  json::object list = {{"object", "list"}, {"data", std::move(data)}, {"has_more", page->has_more}};
  if (!page->items.empty()) {
    list["first_id"] = page->items.front().id;
    list["last_id"] = page->items.back().id;
  }
  exchange.respond({.body = json::serialize(list)});
}

void cancel_batch(const BatchRoutesContext& context, Exchange& exchange) {
  const auto batch = context.batches.cancel(exchange.request().path_param("id"), context.now());
  context.worker.wake();
  respond_batch(exchange, batch);
}

}  // namespace

std::vector<Route> batch_routes(const BatchRoutesContext& context) {
  std::vector<Route> routes;
  routes.push_back(
      {.method = "POST", .pattern = "/v1/batches", .handler = [context](const auto& exchange) {
         create_batch(context, *exchange);
       }});
  routes.push_back(
      {.method = "GET", .pattern = "/v1/batches", .handler = [context](const auto& exchange) {
         list_batches(context, *exchange);
       }});
  routes.push_back(
      {.method = "GET", .pattern = "/v1/batches/{id}", .handler = [context](const auto& exchange) {
         respond_batch(*exchange, context.batches.get(exchange->request().path_param("id")));
       }});
  // Clients send this one without a body.
  routes.push_back(
      {.method = "POST",
       .pattern = "/v1/batches/{id}/cancel",
       .handler = [context](const auto& exchange) { cancel_batch(context, *exchange); }});
  return routes;
}

}  // namespace quire
