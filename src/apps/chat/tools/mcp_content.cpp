#include "apps/chat/tools/mcp_content.h"

#include <string_view>

#include <fmt/format.h>

#include "base/printable.h"

namespace quire {
namespace {

std::string_view part_text(const json::object& part, std::string_view key) {
  const json::value* value = part.if_contains(key);
  return value != nullptr && value->is_string() ? std::string_view(value->get_string()) : "";
}

std::string show_part(const json::value& value) {
  const json::object* part = value.if_object();
  if (part == nullptr) return "";
  const std::string_view type = part_text(*part, "type");
  if (type == "text") return std::string(part_text(*part, "text"));
  if (type == "resource_link") return std::string(part_text(*part, "uri"));
  if (type == "resource") {
    const json::value* inner = part->if_contains("resource");
    const json::object* resource = inner != nullptr ? inner->if_object() : nullptr;
    if (resource != nullptr && resource->contains("text")) {
      return std::string(part_text(*resource, "text"));
    }
  }
  return fmt::format("[{} {}, which is not shown]", printable(type, 40),
                     printable(part_text(*part, "mimeType"), 80));
}

}  // namespace

Result<std::string> mcp_result_text(const json::value& result) {
  const json::object* object = result.if_object();
  if (object == nullptr) return Status::unavailable("the tool's result is no object");
  if (part_text(*object, "resultType") == "input_required") {
    return Status::unimplemented("the tool asks for input, which a chat does not give");
  }
  std::string text;
  const json::value* content = object->if_contains("content");
  if (content != nullptr && content->is_array()) {
    for (const json::value& part : content->get_array()) {
      const std::string shown = show_part(part);
      if (!text.empty() && !shown.empty()) text += '\n';
      text += shown;
    }
  }
  if (text.empty()) {
    if (const json::value* structured = object->if_contains("structuredContent")) {
      text = json::serialize(*structured);
    } else if (content == nullptr) {
      return Status::unimplemented("the tool's result has no content");
    }
  }
  const json::value* failed = object->if_contains("isError");
  if (failed != nullptr && *failed == true) return Status::unavailable(text);
  return text;
}

}  // namespace quire
