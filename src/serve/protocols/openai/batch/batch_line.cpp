#include "serve/protocols/openai/batch/batch_line.h"

#include <cstddef>
#include <utility>

#include <fmt/format.h>

namespace quire {
namespace {

constexpr std::size_t kMaxCustomId = 512;

json::value or_null(const std::optional<std::string>& text) {
  return text ? json::value(*text) : json::value();
}

BatchLineError line_error(std::string_view code, std::string message,
                          std::optional<std::string> param = {}) {
  return {.code = std::string(code),
          .message = std::move(message),
          .param = std::move(param),
          .line = {}};
}

// The end of the string that begins at `at` with a quote, in valid JSON.
std::size_t string_end(std::string_view text, std::size_t at) {
  for (++at; text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return at + 1;
}

std::size_t skip_space(std::string_view text, std::size_t at) {
  while (at < text.size() && std::string_view(" \t\r\n").find(text[at]) != std::string_view::npos) {
    ++at;
  }
  return at;
}

// The end of the value that begins at `at`, in valid JSON.
std::size_t value_end(std::string_view text, std::size_t at) {
  int depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = string_end(text, at);
      if (depth == 0) return at;
      continue;
    }
    if (depth == 0 && (c == ',' || c == '}' || c == ']')) return at;
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    ++at;
    if (depth == 0 && (c == '}' || c == ']')) return at;
  }
  return at;
}

// The text of the last member `key` of an object that is valid JSON. A request is handed on as it
// was written: parsing and writing it again could change the last digit of a number and would hide
// keys that stand twice.
std::string_view member_text(std::string_view text, std::string_view key) {
  std::string_view found;
  std::size_t at = skip_space(text, skip_space(text, 0) + 1);
  while (at < text.size() && text[at] == '"') {
    const std::size_t key_end = string_end(text, at);
    const std::string_view name = text.substr(at + 1, key_end - at - 2);
    at = skip_space(text, skip_space(text, key_end) + 1);
    const std::size_t end = value_end(text, at);
    if (name == key) found = text.substr(at, end - at);
    at = skip_space(text, end);
    if (at < text.size() && text[at] == ',') at = skip_space(text, at + 1);
  }
  return found;
}

std::int64_t count_of(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_int64() || value->get_int64() < 0) return 0;
  return value->get_int64();
}

std::int64_t detail_of(const json::object& usage, std::string_view details, std::string_view key) {
  const json::value* value = usage.if_contains(details);
  return value != nullptr && value->is_object() ? count_of(value->get_object(), key) : 0;
}

}  // namespace

json::object BatchLineError::to_json() const {
  return {{"code", code},
          {"message", message},
          {"param", or_null(param)},
          {"line", line ? json::value(*line) : json::value()}};
}

std::variant<BatchLineRequest, BatchLineError> parse_batch_input_line(std::string_view text,
                                                                      std::string_view endpoint) {
  const auto value = parse_json(text, "line");
  if (!value.ok() || !value->is_object()) {
    return line_error("invalid_json_line", value.ok()
                                               ? "This line is not a JSON object."
                                               : fmt::format("This line is not parseable as valid "
                                                             "JSON: {}",
                                                             value.status().message()));
  }
  const json::object& object = value->get_object();
  for (const std::string_view key : {"custom_id", "method", "url"}) {
    const json::value* field = object.if_contains(key);
    if (field == nullptr || !field->is_string() || field->get_string().empty()) {
      return line_error("missing_required_parameter",
                        fmt::format("'{}' has to be a string that is not empty.", key),
                        std::string(key));
    }
  }
  BatchLineRequest request;
  request.custom_id = std::string_view(object.at("custom_id").get_string());
  if (request.custom_id.size() > kMaxCustomId) {
    return line_error("invalid_custom_id",
                      fmt::format("'custom_id' is longer than {} bytes.", kMaxCustomId),
                      "custom_id");
  }
  if (object.at("method").get_string() != "POST") {
    return line_error("invalid_method", "'method' has to be POST.", "method");
  }
  if (std::string_view(object.at("url").get_string()) != endpoint) {
    return line_error("invalid_url",
                      fmt::format("'url' has to be {}, the endpoint of the batch.", endpoint),
                      "url");
  }
  const json::value* body = object.if_contains("body");
  request.body = member_text(text, "body");
  if (body == nullptr || !body->is_object() || request.body.empty()) {
    return line_error("missing_required_parameter", "'body' has to be a JSON object.", "body");
  }
  const json::value* stream = body->get_object().if_contains("stream");
  request.stream = stream != nullptr && stream->is_bool() && stream->get_bool();
  return request;
}

std::string batch_request_id(std::string_view batch_id, std::int64_t line) {
  if (batch_id.starts_with("batch_")) batch_id.remove_prefix(6);
  return fmt::format("batch_req_{}_{}", batch_id, line);
}

std::string response_record(std::string_view request_id, std::string_view custom_id,
                            const HttpResponse& response) {
  const auto quoted = [](std::string_view text) { return json::serialize(json::value(text)); };
  // As it is, where it is one line of JSON, as all of our answers are.
  const auto parsed = parse_json(response.body, "answer");
  std::string body;
  if (!parsed.ok()) {
    body = quoted(response.body);
  } else {
    body = response.body.find('\n') == std::string::npos ? response.body : json::serialize(*parsed);
  }
  return fmt::format(
      R"({{"id":{},"custom_id":{},"response":{{"status_code":{},"request_id":{},"body":{}}},"error":null}})"
      "\n",
      quoted(request_id), quoted(custom_id), response.status, quoted(request_id), body);
}

std::string unanswered_record(std::string_view request_id, std::string_view custom_id,
                              std::string_view code, std::string_view message) {
  return json::serialize(json::object{{"id", request_id},
                                      {"custom_id", custom_id},
                                      {"response", nullptr},
                                      {"error", {{"code", code}, {"message", message}}}}) +
         "\n";
}

BatchUsage read_usage(const json::value& answer) {
  if (!answer.is_object()) return {};
  const json::value* value = answer.get_object().if_contains("usage");
  if (value == nullptr || !value->is_object()) return {};
  const json::object& usage = value->get_object();
  // Completions and embeddings name them one way, responses the other.
  return {.input_tokens = count_of(usage, "prompt_tokens") + count_of(usage, "input_tokens"),
          .cached_tokens = detail_of(usage, "prompt_tokens_details", "cached_tokens") +
                           detail_of(usage, "input_tokens_details", "cached_tokens"),
          .output_tokens = count_of(usage, "completion_tokens") + count_of(usage, "output_tokens"),
          .reasoning_tokens = detail_of(usage, "completion_tokens_details", "reasoning_tokens") +
                              detail_of(usage, "output_tokens_details", "reasoning_tokens")};
}

}  // namespace quire
