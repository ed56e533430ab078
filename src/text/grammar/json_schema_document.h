// A JSON Schema as its author wrote it: which draft each part follows, and what `$ref` and its
// kin point to. Nothing is fetched: an address that no `$id` in the schema declares is an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "text/grammar/json_schema_contents.h"

namespace quire {

// The drafts in the order of their years. `kOpen` is a schema without `$schema`: 2020-12 with the
// older keywords understood as well.
enum class SchemaDraft : std::uint8_t { kDraft4, kDraft6, kDraft7, k2019, k2020, kOpen };

// One schema: an object or a boolean somewhere in the document, and the resource (`$id`) it is in.
struct SchemaPlace {
  const json::value* value = nullptr;
  int resource = 0;

  bool operator==(const SchemaPlace&) const = default;
};

class JsonSchemaDocument {
 public:
  // How many values a schema may have, its constants included.
  static constexpr std::int64_t kMaxValues = 300'000;
  // How deep it may nest.
  static constexpr int kMaxDepth = 256;

  // Finds the resources and anchors. Borrows `root`. kInvalidArgument for what is no schema;
  // kUnimplemented for an unknown `$schema`; kResourceExhausted beyond the limits.
  static Result<JsonSchemaDocument> index(const json::value& root);

  SchemaPlace root() const { return {resources_.front().root, 0}; }
  SchemaDraft draft(SchemaPlace place) const { return resource(place).draft; }
  // Whether references depend on the way by which a schema was reached.
  bool has_dynamic_anchors() const { return has_dynamic_anchors_; }

  // The subschema `value` of the schema `parent`, in another resource where it says `$id`.
  SchemaPlace child(SchemaPlace parent, const json::value& value) const;

  // The first schema within that says what `place` says, remarks apart; its own resource stays, by
  // which references in it are understood.
  SchemaPlace first_like(SchemaPlace place) const {
    return {&contents_.first_like(*place.value), place.resource};
  }

  // What `$ref` in `from` means. kInvalidArgument where it leads nowhere, or to two.
  Result<SchemaPlace> resolve(SchemaPlace from, std::string_view reference) const;
  // `$dynamicRef`: as `$ref`, but where that is a dynamic anchor, the one of the same name in the
  // first of `scope` (resources in the order in which they were entered) that has it.
  Result<SchemaPlace> resolve_dynamic(SchemaPlace from, std::string_view reference,
                                      const std::vector<int>& scope) const;
  // `$recursiveRef: "#"` of 2019-09.
  Result<SchemaPlace> resolve_recursive(SchemaPlace from, const std::vector<int>& scope) const;

  // Where `value` is, as a JSON pointer, for messages: looks through the whole document.
  std::string pointer_to(const json::value& value) const;

 private:
  struct Resource {
    std::string uri;
    const json::value* root = nullptr;
    SchemaDraft draft = SchemaDraft::kOpen;
    bool recursive_anchor = false;
    std::unordered_map<std::string, const json::value*> anchors;
    std::unordered_map<std::string, const json::value*> dynamic_anchors;
  };
  static constexpr int kTwoOfOneName = -1;

  const Resource& resource(SchemaPlace place) const {
    return resources_[static_cast<std::size_t>(place.resource)];
  }
  Status index_schema(const json::value& value, int in, int depth);
  Status index_object(const json::object& object, int in, int depth);
  Status enter(const json::value& value, const json::object& object, int* in);
  Result<SchemaPlace> follow_pointer(int from, std::string_view pointer,
                                     std::string_view reference) const;

  std::vector<Resource> resources_;
  std::unordered_map<std::string, int> by_uri_;
  std::unordered_map<const json::value*, int> by_value_;  // roots of resources
  JsonSchemaContents contents_;                           // of schemas that have no resource within
  std::int64_t num_values_ = 0;
  bool has_dynamic_anchors_ = false;
};

// "a/b" as one part of a JSON pointer: "a~1b".
std::string pointer_part(std::string_view key);

}  // namespace quire
