#include "apps/chat/tools/mcp_content.h"

#include <fmt/format.h>

#include "base/printable.h"

namespace quire {
namespace {

std::string show_part(const json::value& part) {
  if (!part.is_object()) return "";
  const std::string_view type = mcp_text(part, "type");
  if (type == "text") return std::string(mcp_text(part, "text"));
  if (type == "resource_link") return std::string(mcp_text(part, "uri"));
  if (type == "resource") {
    const json::value* resource = mcp_member(part, "resource");
    if (resource != nullptr && mcp_member(*resource, "text") != nullptr) {
      return std::string(mcp_text(*resource, "text"));
    }
  }
  return fmt::format("[{} {}, which is not shown]", printable(type, 40),
                     printable(mcp_text(part, "mimeType"), 80));
}

}  // namespace

const json::value* mcp_member(const json::value& value, std::string_view key) {
  const json::object* object = value.if_object();
  return object != nullptr ? object->if_contains(key) : nullptr;
}

std::string_view mcp_text(const json::value& value, std::string_view key) {
  const json::value* found = mcp_member(value, key);
  return found != nullptr && found->is_string() ? std::string_view(found->get_string()) : "";
}

Result<std::string> mcp_result_text(const json::value& result) {
  if (!result.is_object()) return Status::unavailable("the tool's result is no object");
  if (mcp_text(result, "resultType") == "input_required") {
    return Status::unimplemented("the tool asks for input, which a chat does not give");
  }
  std::string text;
  const json::value* content = mcp_member(result, "content");
  if (content != nullptr && content->is_array()) {
    for (const json::value& part : content->get_array()) {
      const std::string shown = show_part(part);
      if (!text.empty() && !shown.empty()) text += '\n';
      text += shown;
    }
  }
  if (text.empty()) {
    if (const json::value* structured = mcp_member(result, "structuredContent")) {
      text = json::serialize(*structured);
    } else if (content == nullptr) {
      return Status::unimplemented("the tool's result has no content");
    }
  }
  const json::value* failed = mcp_member(result, "isError");
  if (failed != nullptr && *failed == true) return Status::unavailable(text);
  return text;
}

}  // namespace quire
