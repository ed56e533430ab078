// A request's body: a JSON object whose fields are known, known but not supported here, or unknown.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "serve/http/exchange.h"
#include "serve/protocols/openai/api_error.h"
#include "serve/protocols/openai/request_fields.h"
#include "serve/service.h"

namespace quire {

class RequestBody {
 public:
  // Parses and checks the names. An error for invalid JSON (also duplicate keys and invalid UTF-8),
  // no object, a field that the table refuses, and with `strict` an unknown one.
  static std::variant<RequestBody, ApiError> parse(std::string_view text, const FieldTable& table,
                                                   bool strict);
  // With what the service says of unknown fields; those that are passed over are in its log.
  static std::variant<RequestBody, ApiError> parse(std::string_view text, const FieldTable& table,
                                                   const Service& service);

  JsonReader reader() const { return JsonReader(object_, "request", StatusCode::kInvalidArgument); }
  const json::object& object() const { return object_; }
  // Unknown fields, misspelt ones with what may be meant, for the header X-Ignored-Fields; empty
  // where there are none.
  std::string ignored_fields() const;

 private:
  json::object object_;
  std::vector<std::string> ignored_;
};

// The error for a status, with the field that its message starts with ("request: top_p: ...") as
// its param, `field` where it starts with none, and Retry-After where the queue is full.
ApiError request_error(const Status& status, const ServedModel& served, std::string_view field);

// The model that a request means, and what the request calls it.
struct RequestedModel {
  std::string name;
  ServedModel* served = nullptr;
};
// The one that it names, or where it names none the server's own. 404 for another one.
std::variant<RequestedModel, ApiError> read_model(const RequestBody& body, const Service& service);

// Answers with the error.
void respond_error(Exchange& exchange, const ApiError& error);

// A list that is not empty and has only numbers: one prompt, not a list of prompts.
bool is_token_list(const json::value& value);

}  // namespace quire
