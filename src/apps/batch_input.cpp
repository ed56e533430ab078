#include "apps/batch_input.h"

#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace quire {
namespace {

constexpr std::array<std::string_view, 11> kFields = {
    "id",    "prompt", "messages", "prompt_token_ids", "max_tokens", "temperature", "top_k",
    "top_p", "seed",   "stop",     "ignore_eos"};

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

Result<std::vector<std::string>> stop_strings(const JsonReader& line) {
  const json::value& value = *line.find("stop");
  if (value.is_string()) return std::vector<std::string>{std::string(value.get_string())};
  if (!value.is_array()) return line.type_error("stop", "a string or an array of strings");
  std::vector<std::string> stop;
  for (const json::value& item : value.get_array()) {
    if (!item.is_string()) return line.type_error("stop", "a string or an array of strings");
    stop.emplace_back(item.get_string());
  }
  return stop;
}

Status read_params(const JsonReader& line, BatchRequest& request) {
  SamplingParams& params = request.params;
  QUIRE_ASSIGN_OR_RETURN(const auto max_tokens, line.find_int("max_tokens"));
  if (max_tokens) params.max_tokens = *max_tokens;
  request.max_tokens_given = max_tokens.has_value();
  QUIRE_ASSIGN_OR_RETURN(const auto temperature, line.find_double("temperature"));
  params.temperature = temperature.value_or(params.temperature);
  QUIRE_ASSIGN_OR_RETURN(const auto top_k, line.find_int("top_k"));
  params.top_k = top_k.value_or(params.top_k);
  QUIRE_ASSIGN_OR_RETURN(const auto top_p, line.find_double("top_p"));
  params.top_p = top_p.value_or(params.top_p);
  QUIRE_ASSIGN_OR_RETURN(const auto seed, line.find_int("seed"));
  if (seed && *seed < 0) {
    return Status::invalid_argument(
        fmt::format("{}: seed is {}; expected 0 or more", line.where(), *seed));
  }
  if (seed) params.seed = static_cast<std::uint64_t>(*seed);
  QUIRE_ASSIGN_OR_RETURN(const auto ignore_eos, line.find_bool("ignore_eos"));
  params.ignore_eos = ignore_eos.value_or(params.ignore_eos);
  if (line.contains("stop")) {
    QUIRE_ASSIGN_OR_RETURN(params.stop, stop_strings(line));
  }
  return {};
}

Status read_request(const JsonReader& line, BatchRequest& request) {
  QUIRE_RETURN_IF_ERROR(check_fields(line, kFields));
  QUIRE_ASSIGN_OR_RETURN(request.prompt, prompt_of(line));
  return read_params(line, request);
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

}  // namespace quire
