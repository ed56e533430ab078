#include "serve/protocols/openai/request_body.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/nearest.h"
#include "serve/http/field_text.h"
#include "serve/protocols/openai/text_limits.h"
#include "serve/protocols/unique_keys.h"

namespace quire {
namespace {

constexpr std::size_t kMaxShownFields = 20;
constexpr std::size_t kMaxShownName = 64;

// A client's name of a field as it may stand in a header.
std::string shown_name(std::string_view name) {
  std::string out;
  for (const char c : name.substr(0, kMaxShownName)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '-' || c == '.';
    out.push_back(plain ? c : '?');
  }
  return out;
}

ApiError bad_request(std::string message, std::optional<std::string> param = {},
                     std::optional<std::string> code = {}) {
  ApiError error;
  error.message = std::move(message);
  error.param = std::move(param);
  error.code = std::move(code);
  return error;
}

// The name at the start of a message: "top_p" of "request: top_p: expected ...".
std::optional<std::string> named_field(std::string_view message) {
  constexpr std::string_view kWhere = "request: ";
  if (message.starts_with(kWhere)) message.remove_prefix(kWhere.size());
  const std::size_t end = message.find(": ");
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view name = message.substr(0, end);
  const bool plain = std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '[' || c == ']' ||
           c == '.';
  });
  if (name.empty() || !plain) return std::nullopt;
  return std::string(name);
}

// " (did you mean temperature?)" where a known field is spelt nearly so.
std::string spelling_hint(std::string_view name, const FieldTable& table) {
  constexpr std::size_t kMostEdits = 2;
  constexpr std::size_t kShortest = 4;
  if (name.size() < kShortest) return {};
  std::vector<std::string> candidates;
  for (const RequestField& field : table.fields) candidates.emplace_back(field.name);
  const auto meant = nearest(name, candidates, kMostEdits);
  return meant ? fmt::format(" (did you mean {}?)", *meant) : std::string();
}

std::string refusal(const RequestField& field) {
  if (field.note.empty()) {
    return fmt::format("{}: this feature is not supported by this server; leave the field out",
                       field.name);
  }
  return fmt::format("{}: this value is not supported by this server, only {}", field.name,
                     field.note);
}

}  // namespace

std::variant<RequestBody, ApiError> RequestBody::parse(std::string_view text,
                                                       const FieldTable& table, bool strict) {
  auto value = parse_json(text, "request");
  if (!value.ok()) return bad_request(value.status().to_string());
  if (!value->is_object()) {
    return bad_request(
        fmt::format("request: expected a JSON object, found {}", json_kind_name(*value)));
  }
  if (const auto twice = find_duplicate_key(text)) {
    return bad_request(
        fmt::format("request: the key \"{}\" stands there twice", shown_name(*twice)),
        shown_name(*twice));
  }
  RequestBody body;
  body.object_ = std::move(value->get_object());
  for (const auto& field : body.object_) {
    const std::string_view name = field.key();
    const RequestField* known = table.find(name);
    if (known == nullptr) {
      // No more of a million fields than can be shown: looking for the nearest name is slow.
      const bool shown = strict || body.ignored_.size() < kMaxShownFields;
      const std::string hint = shown ? spelling_hint(name, table) : std::string();
      if (strict) {
        return bad_request(fmt::format("{}: there is no such field{}", shown_name(name), hint),
                           shown_name(name), "unknown_parameter");
      }
      body.ignored_.push_back(shown_name(name) + hint);
    } else if (known->effect == FieldEffect::kRefused && !field.value().is_null() &&
               !known->harmless(field.value(), body.object_)) {
      return bad_request(refusal(*known), std::string(name), "unsupported_parameter");
    }
  }
  return body;
}

std::variant<RequestBody, ApiError> RequestBody::parse(std::string_view text,
                                                       const FieldTable& table,
                                                       const Service& service) {
  auto body = parse(text, table, service.config().strict_fields);
  if (const auto* parsed = std::get_if<RequestBody>(&body);
      parsed != nullptr && !parsed->ignored_.empty()) {
    service.ignored_fields().warn(
        fmt::format("{}: fields that are not known are passed over: {} (--strict-fields refuses "
                    "them; this is said once a minute)",
                    table.route, parsed->ignored_fields()));
  }
  return body;
}

std::string RequestBody::ignored_fields() const {
  const std::size_t count = std::min(ignored_.size(), kMaxShownFields);
  std::string text = fmt::format(
      "{}",
      fmt::join(ignored_.begin(), ignored_.begin() + static_cast<std::ptrdiff_t>(count), ", "));
  if (count < ignored_.size()) text += fmt::format(", and {} more", ignored_.size() - count);
  return text;
}

ApiError request_error(const Status& status, const ServedModel& served, std::string_view field) {
  ApiError error = to_api_error(status, named_field(status.message()));
  if (error.status == 400 && !error.param && !field.empty()) error.param = std::string(field);
  if (is_context_overflow(status)) error.code = "context_length_exceeded";
  if (error.status == 429) {
    error.headers.push_back({"Retry-After", std::to_string(served.retry_after_seconds())});
  }
  return error;
}

std::variant<RequestedModel, ApiError> read_model(const RequestBody& body, const Service& service) {
  auto field = body.reader().find_string("model");
  if (!field.ok()) return request_error(field.status(), service.model(), "model");
  const std::string name = field->value_or("");
  if (ServedModel* served = service.find(name)) {
    return RequestedModel{name.empty() ? served->name() : name, served};
  }
  ApiError error;
  error.status = 404;
  error.message =
      fmt::format("The model `{}` does not exist; this server has {}", clipped(name, 200),
                  fmt::join(service.config().served_model_names, ", "));
  error.type = "not_found_error";
  error.param = "model";
  error.code = "model_not_found";
  return error;
}

void respond_error(Exchange& exchange, const ApiError& error) {
  exchange.respond(error_response(error));
}

bool is_token_list(const json::value& value) {
  return value.is_array() && !value.get_array().empty() &&
         std::ranges::all_of(value.get_array(),
                             [](const json::value& item) { return item.is_number(); });
}

}  // namespace quire
