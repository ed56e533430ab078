#include "apps/batch_resume.h"

#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "apps/jsonl.h"

namespace quire {
namespace {

constexpr std::int64_t kNoPrompt = -1;

// The prompt's length that a record states, kNoPrompt for an error record.
Result<std::int64_t> prompt_tokens_of(const JsonLine& line, const std::string& where) {
  const JsonReader record(line.object, where, StatusCode::kInvalidArgument);
  if (record.contains("id") && record.contains("error")) return kNoPrompt;
  if (record.contains("id") && record.contains("outputs")) {
    QUIRE_ASSIGN_OR_RETURN(const JsonReader usage, record.get_object("usage"));
    return usage.get_int("prompt_tokens");
  }
  return Status::invalid_argument(fmt::format("{} is no record of a batch", where),
                                  "name another --output, or leave out --resume");
}

}  // namespace

Result<DoneRecords> DoneRecords::read(const std::string& path) {
  DoneRecords done;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return done;
  QUIRE_ASSIGN_OR_RETURN(const auto stream, open_input(path));
  LineReader reader(*stream);
  std::uint64_t end = 0;
  while (auto text = reader.next()) {
    if (!text->ok()) return text->status();
    if (reader.last_line_torn()) break;
    const std::string where = fmt::format("{}: line {}", path, reader.line_number());
    const auto parsed = parse_json_line(**text, reader.line_number());
    if (const auto* broken = std::get_if<LineError>(&parsed)) {
      return Status::invalid_argument(fmt::format("{}: {}", path, broken->status.message()),
                                      "name another --output, or leave out --resume");
    }
    const auto& line = std::get<JsonLine>(parsed);
    QUIRE_ASSIGN_OR_RETURN(const std::int64_t tokens, prompt_tokens_of(line, where));
    done.prompt_tokens_[json::serialize(line.id)] = tokens;
    end = reader.bytes_read();
  }
  done.whole_bytes_ = end;
  return done;
}

bool DoneRecords::contains(const json::value& id) const {
  return prompt_tokens_.contains(json::serialize(id));
}

Status DoneRecords::take(const json::value& id, std::int64_t line) {
  const auto [entry, is_new] = lines_.try_emplace(json::serialize(id), line);
  if (is_new) return {};
  return Status::invalid_argument(
      fmt::format("line {} has the id {}, as line {} has", line, entry->first, entry->second),
      "--resume needs an id of its own for every line");
}

Status DoneRecords::check_same(const json::value& id, std::int64_t line,
                               std::int64_t num_prompt_tokens) const {
  const auto found = prompt_tokens_.find(json::serialize(id));
  if (found == prompt_tokens_.end() || found->second == kNoPrompt ||
      found->second == num_prompt_tokens) {
    return {};
  }
  return Status::invalid_argument(
      fmt::format("line {} has the id {} and a prompt of {} tokens; the output's record with this "
                  "id was made from {}",
                  line, found->first, num_prompt_tokens, found->second),
      "the input has changed: give its lines other ids, or start a new --output");
}

}  // namespace quire
