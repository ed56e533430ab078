#include <initializer_list>

#include <fmt/format.h>

#include "apps/bench_serve/workload.h"
#include "apps/jsonl.h"

namespace quire::bench {
namespace {

constexpr std::int64_t kMaxLen = 1 << 24;

// The first of `names` that is there. Different tools call one thing by different names.
Result<std::optional<std::int64_t>> find_length(const JsonReader& line,
                                                std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    QUIRE_ASSIGN_OR_RETURN(const auto value, line.find_int(name));
    if (!value) continue;
    if (*value >= 1 && *value <= kMaxLen) return value;
    return Status::invalid_argument(
        fmt::format("{}: {}: expected 1 to {}, found {}", line.where(), name, kMaxLen, *value));
  }
  return std::optional<std::int64_t>();
}

Result<std::optional<Prompt>> read_prompt(const JsonReader& line) {
  const json::value* prompt = line.find("prompt");
  const json::value* messages = line.find("messages");
  if (prompt != nullptr && messages != nullptr) {
    return Status::invalid_argument(
        fmt::format("{}: give either prompt or messages", line.where()));
  }
  if (messages != nullptr) {
    if (!messages->is_array() || messages->get_array().empty()) {
      return line.type_error("messages", "a list of messages");
    }
    return std::optional<Prompt>(messages->get_array());
  }
  if (prompt == nullptr) return std::optional<Prompt>();
  if (prompt->is_string()) return std::optional<Prompt>(std::string(prompt->get_string()));
  if (!prompt->is_array() || prompt->get_array().empty()) {
    return line.type_error("prompt", "a text or token ids");
  }
  QUIRE_ASSIGN_OR_RETURN(TokenIds ids, read_token_ids(line, "prompt"));
  return std::optional<Prompt>(std::move(ids));
}

Result<WorkloadLine> read_line(const JsonReader& line, bool is_trace) {
  WorkloadLine result;
  QUIRE_ASSIGN_OR_RETURN(result.prompt, read_prompt(line));
  QUIRE_ASSIGN_OR_RETURN(result.input_len,
                         find_length(line, {"input_len", "input_length", "input_tokens"}));
  QUIRE_ASSIGN_OR_RETURN(result.output_len, find_length(line, {"max_tokens", "output_len",
                                                               "output_length", "output_tokens"}));
  if (!result.prompt && !result.input_len) {
    return Status::invalid_argument(
        fmt::format("{}: there is neither prompt, nor messages, nor input_len", line.where()));
  }
  if (!is_trace) return result;
  QUIRE_ASSIGN_OR_RETURN(const double timestamp, line.get_double("timestamp"));
  if (timestamp < 0) {
    return Status::invalid_argument(fmt::format("{}: timestamp: it is negative", line.where()));
  }
  result.timestamp = timestamp;
  return result;
}

}  // namespace

Result<std::vector<WorkloadLine>> read_workload_file(const WorkloadFlags& flags) {
  const bool is_trace = flags.dataset == Dataset::kTrace;
  QUIRE_ASSIGN_OR_RETURN(const auto stream, open_input(flags.path));
  LineReader reader(*stream);
  std::vector<WorkloadLine> lines;
  const auto wanted = static_cast<std::size_t>(flags.num_prompts.value_or(kMaxLen));
  while (lines.size() < wanted) {
    const auto text = reader.next();
    if (!text) break;
    QUIRE_RETURN_IF_ERROR(text->status());
    const std::string where = fmt::format("{}: line {}", flags.path, reader.line_number());
    QUIRE_ASSIGN_OR_RETURN(const json::value value, parse_json(**text, where));
    if (!value.is_object()) {
      return Status::invalid_argument(fmt::format("{}: expected an object", where));
    }
    const JsonReader object(value.get_object(), where, StatusCode::kInvalidArgument);
    QUIRE_ASSIGN_OR_RETURN(WorkloadLine line, read_line(object, is_trace));
    if (is_trace && !lines.empty() && *line.timestamp < *lines.back().timestamp) {
      return Status::invalid_argument(
          fmt::format("{}: timestamp: it is before that of the line before", where),
          "sort the file by timestamp");
    }
    lines.push_back(std::move(line));
  }
  if (lines.empty()) return Status::invalid_argument(fmt::format("{}: it is empty", flags.path));
  if (is_trace && flags.num_prompts && lines.size() < wanted) {
    return Status::invalid_argument(
        fmt::format("--num-prompts {}: {} has {} lines", wanted, flags.path, lines.size()));
  }
  return lines;
}

}  // namespace quire::bench
