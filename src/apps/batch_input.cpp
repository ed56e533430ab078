#include "apps/batch_input.h"

#include <array>

#include <fmt/format.h>

#include "serve/protocols/sampling_fields.h"
#include "serve/protocols/structured_fields.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 4> kOwnFields = {"id", "prompt", "messages",
                                                        "prompt_token_ids"};

std::vector<std::string_view> known_fields() {
  std::vector<std::string_view> names(kOwnFields.begin(), kOwnFields.end());
  names.insert(names.end(), kQueueFields.begin(), kQueueFields.end());
  for (const SamplingField& field : sampling_fields()) names.push_back(field.name);
  const auto constraints = constraint_field_names();
  names.emplace_back("response_format");
  names.insert(names.end(), constraints.begin(), constraints.end());
  return names;
}

Result<BatchPrompt> prompt_of(const JsonReader& line) {
  const int given = static_cast<int>(line.contains("prompt")) +
                    static_cast<int>(line.contains("messages")) +
                    static_cast<int>(line.contains("prompt_token_ids"));
  if (given != 1) {
    return Status::invalid_argument(
        fmt::format("{}: {} of prompt, messages and prompt_token_ids are given", line.where(),
                    given),
        "give exactly one");
  }
  if (line.contains("prompt")) {
    QUIRE_ASSIGN_OR_RETURN(auto text, line.get_string("prompt"));
    return BatchPrompt(std::move(text));
  }
  if (const json::value* messages = line.find("messages")) {
    if (!messages->is_array()) return line.type_error("messages", "an array");
    return BatchPrompt(messages->get_array());
  }
  QUIRE_ASSIGN_OR_RETURN(auto ids, read_token_ids(line, "prompt_token_ids"));
  return BatchPrompt(std::move(ids));
}

Status read_request(const JsonReader& line, BatchRequest& request) {
  static const std::vector<std::string_view> kKnown = known_fields();
  QUIRE_RETURN_IF_ERROR(check_fields(line, kKnown));
  QUIRE_ASSIGN_OR_RETURN(request.prompt, prompt_of(line));
  QUIRE_ASSIGN_OR_RETURN(request.queue, read_queue_fields(line));
  request.max_tokens_given = line.contains("max_tokens");
  QUIRE_RETURN_IF_ERROR(read_sampling_fields(line, request.params));
  return read_constraint_fields(line, request.params);
}

}  // namespace

BatchLine parse_batch_line(std::string_view text, std::int64_t line_number,
                           const SamplingParams& defaults) {
  auto parsed = parse_json_line(text, line_number);
  if (auto* error = std::get_if<LineError>(&parsed)) return std::move(*error);
  const auto& line = std::get<JsonLine>(parsed);
  BatchRequest request;
  request.id = line.id;
  request.params = defaults;
  const JsonReader reader(line.object, fmt::format("line {}", line_number),
                          StatusCode::kInvalidArgument);
  const Status status = read_request(reader, request);
  if (!status.ok()) return LineError{request.id, status};
  return request;
}

json::object batch_line_schema() {
  json::object properties;
  properties["id"] = {{"type", {"string", "integer"}},
                      {"description", "Carried by the record (default: the line's number)"}};
  properties["prompt"] = {{"type", "string"}, {"description", "Text to continue"}};
  properties["messages"] = {{"type", "array"},
                            {"items", {{"type", "object"}}},
                            {"description", "A chat, through the model's chat template"}};
  properties["prompt_token_ids"] = {{"type", "array"},
                                    {"items", {{"type", "integer"}, {"minimum", 0}}},
                                    {"description", "The prompt's token ids"}};
  for (auto& property : queue_properties()) {
    properties[property.key()] = std::move(property.value());
  }
  for (auto& property : sampling_properties()) {
    properties[property.key()] = std::move(property.value());
  }
  for (auto& property : constraint_properties()) {
    properties[property.key()] = std::move(property.value());
  }
  json::array one_of;
  for (const char* name : {"prompt", "messages", "prompt_token_ids"}) {
    one_of.push_back(json::object{{"required", json::array{name}}});
  }
  return {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
          {"title", "A line of quire generate --input"},
          {"type", "object"},
          {"properties", std::move(properties)},
          {"oneOf", std::move(one_of)},
          {"additionalProperties", false}};
}

}  // namespace quire
