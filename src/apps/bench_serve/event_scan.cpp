#include "apps/bench_serve/event_scan.h"

#include <algorithm>

#include "base/json.h"

namespace quire::bench {
namespace {

// The end of the string that begins behind the quotation mark before `at`: where its closing mark
// stands.
std::size_t string_end(std::string_view data, std::size_t at) {
  const std::size_t begin = at;
  while ((at = data.find('"', at)) != std::string_view::npos) {
    std::size_t backslashes = 0;
    while (at - backslashes > begin && data[at - backslashes - 1] == '\\') ++backslashes;
    if (backslashes % 2 == 0) break;
    ++at;
  }
  return at;
}

std::size_t skip_spaces(std::string_view data, std::size_t at) {
  return std::min(data.find_first_not_of(" \t\r\n", at), data.size());
}

bool is_text(std::string_view value) {
  return value.size() > 1 && value[0] == '"' && value[1] != '"';
}

std::optional<Usage> read_usage(std::string_view data) {
  const auto event = parse_json(data, "usage");
  if (!event.ok() || !event->is_object()) return std::nullopt;
  const json::value* found = event->get_object().if_contains("usage");
  if (found == nullptr || !found->is_object()) return std::nullopt;
  const JsonReader usage(found->get_object(), "usage");
  const auto prompt = usage.get_int("prompt_tokens");
  const auto completion = usage.get_int("completion_tokens");
  if (!prompt.ok() || !completion.ok()) return std::nullopt;
  Usage result = {.prompt_tokens = *prompt, .completion_tokens = *completion};
  if (const auto details = usage.get_object("prompt_tokens_details"); details.ok()) {
    const auto cached = details->find_int("cached_tokens");
    if (cached.ok()) result.cached_tokens = cached->value_or(0);
  }
  return result;
}

}  // namespace

EventFacts scan_event(std::string_view data) {
  EventFacts facts;
  bool has_usage = false;
  std::size_t at = 0;
  while ((at = data.find('"', at)) != std::string_view::npos) {
    const std::size_t end = string_end(data, at + 1);
    if (end == std::string_view::npos) break;
    const std::string_view key = data.substr(at + 1, end - at - 1);
    at = skip_spaces(data, end + 1);
    if (at == data.size() || data[at] != ':') continue;  // the string was a value
    at = skip_spaces(data, at + 1);
    const std::string_view value = data.substr(at);
    if (key == "text" || key == "content" || key == "reasoning_content" || key == "reasoning" ||
        key == "refusal") {
      facts.has_text = facts.has_text || is_text(value);
    } else if (key == "tool_calls") {
      facts.has_text = facts.has_text || value.starts_with("[{");
    } else if (key == "finish_reason") {
      facts.finished = facts.finished || is_text(value);
    } else if (key == "usage") {
      has_usage = value.starts_with('{');
    } else if (key == "error") {
      facts.is_error = value.starts_with('{') || is_text(value);
    }
  }
  if (has_usage) facts.usage = read_usage(data);
  return facts;
}

}  // namespace quire::bench
