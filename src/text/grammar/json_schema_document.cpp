#include "text/grammar/json_schema_document.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "base/printable.h"
#include "text/grammar/json_schema_uri.h"

namespace quire {
namespace {

// Where schemas are found in a schema: under these keys a schema, a list of them, or a map of them.
constexpr std::array<std::string_view, 13> kSchemaKeys = {"items",
                                                          "additionalItems",
                                                          "additionalProperties",
                                                          "unevaluatedItems",
                                                          "unevaluatedProperties",
                                                          "contains",
                                                          "propertyNames",
                                                          "not",
                                                          "if",
                                                          "then",
                                                          "else",
                                                          "contentSchema",
                                                          "extends"};
constexpr std::array<std::string_view, 5> kSchemaListKeys = {"allOf", "anyOf", "oneOf",
                                                             "prefixItems", "items"};
constexpr std::array<std::string_view, 6> kSchemaMapKeys = {
    "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"};

template <typename Keys>
bool is_among(const Keys& keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

const std::string* string_at(const json::object& object, std::string_view key,
                             std::string* storage) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_string()) return nullptr;
  *storage = std::string(value->get_string());
  return storage;
}

Result<SchemaDraft> draft_of(std::string_view uri) {
  if (uri.ends_with('#')) uri.remove_suffix(1);
  if (uri.starts_with("https://")) uri.remove_prefix(8);
  if (uri.starts_with("http://")) uri.remove_prefix(7);
  if (uri == "json-schema.org/draft-04/schema") return SchemaDraft::kDraft4;
  if (uri == "json-schema.org/draft-06/schema") return SchemaDraft::kDraft6;
  if (uri == "json-schema.org/draft-07/schema") return SchemaDraft::kDraft7;
  if (uri == "json-schema.org/draft/2019-09/schema") return SchemaDraft::k2019;
  if (uri == "json-schema.org/draft/2020-12/schema") return SchemaDraft::k2020;
  if (uri == "json-schema.org/schema") return SchemaDraft::kOpen;
  return Status::unimplemented(
      fmt::format("JSON Schema: $schema names the dialect {}, which is not known", printable(uri)),
      "use draft 4, 6, 7, 2019-09 or 2020-12, or leave $schema out");
}

bool find_pointer(const json::value& at, const json::value& target, std::string* pointer) {
  if (&at == &target) return true;
  const std::size_t size = pointer->size();
  if (const json::object* object = at.if_object()) {
    for (const auto& entry : *object) {
      pointer->append("/").append(pointer_part(entry.key()));
      if (find_pointer(entry.value(), target, pointer)) return true;
      pointer->resize(size);
    }
  } else if (const json::array* array = at.if_array()) {
    for (std::size_t i = 0; i < array->size(); ++i) {
      pointer->append(fmt::format("/{}", i));
      if (find_pointer((*array)[i], target, pointer)) return true;
      pointer->resize(size);
    }
  }
  return false;
}

Status count_values(const json::value& value, int depth, std::int64_t* count) {
  if (++*count > JsonSchemaDocument::kMaxValues) {
    return Status::resource_exhausted(
        fmt::format("JSON Schema: more than {} values", JsonSchemaDocument::kMaxValues),
        "use a smaller schema");
  }
  if (depth > JsonSchemaDocument::kMaxDepth) {
    return Status::resource_exhausted(
        fmt::format("JSON Schema: nested more than {} deep", JsonSchemaDocument::kMaxDepth),
        "use $ref for what repeats");
  }
  if (const json::object* object = value.if_object()) {
    for (const auto& entry : *object) {
      QUIRE_RETURN_IF_ERROR(count_values(entry.value(), depth + 1, count));
    }
  } else if (const json::array* array = value.if_array()) {
    for (const json::value& item : *array) {
      QUIRE_RETURN_IF_ERROR(count_values(item, depth + 1, count));
    }
  }
  return {};
}

}  // namespace

std::string pointer_part(std::string_view key) {
  std::string part;
  for (const char c : key) {
    if (c == '~') {
      part += "~0";
    } else if (c == '/') {
      part += "~1";
    } else {
      part += c;
    }
  }
  return part;
}

Result<JsonSchemaDocument> JsonSchemaDocument::index(const json::value& root) {
  if (!root.is_object() && !root.is_bool()) {
    return Status::invalid_argument(
        fmt::format("JSON Schema: expected an object or a boolean, found {}", json_kind_name(root)),
        "give the schema itself, as JSON");
  }
  JsonSchemaDocument document;
  QUIRE_RETURN_IF_ERROR(count_values(root, 0, &document.num_values_));
  Resource first;
  first.root = &root;
  document.resources_.push_back(std::move(first));
  document.by_uri_.emplace("", 0);
  document.by_value_.emplace(&root, 0);
  QUIRE_RETURN_IF_ERROR(document.index_schema(root, 0, 0));
  return document;
}

// Makes a resource of `object` if it has an address of its own, and notes its anchors.
Status JsonSchemaDocument::enter(const json::value& value, const json::object& object, int* in) {
  std::string text;
  SchemaDraft draft = resources_[static_cast<std::size_t>(*in)].draft;
  if (string_at(object, "$schema", &text) != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(draft, draft_of(text));
    if (by_value_.contains(&value)) resources_[static_cast<std::size_t>(*in)].draft = draft;
  }
  const std::string_view id_key = draft == SchemaDraft::kDraft4 ? "id" : "$id";
  // Up to draft 7 what stands beside $ref has no meaning.
  const bool ref_alone = draft <= SchemaDraft::kDraft7 && object.contains("$ref");
  if (!ref_alone && string_at(object, id_key, &text) != nullptr) {
    const UriParts parts = split_fragment(text);
    if (!parts.address.empty()) {
      const std::string uri =
          resolve_uri(resources_[static_cast<std::size_t>(*in)].uri, parts.address);
      if (&value == resources_.front().root) {
        resources_.front().uri = uri;
        by_uri_.emplace(uri, 0);
      } else {
        const int made = static_cast<int>(resources_.size());
        const auto [place, fresh] = by_uri_.emplace(uri, made);
        if (!fresh) place->second = kTwoOfOneName;
        Resource resource;
        resource.uri = uri;
        resource.root = &value;
        resource.draft = draft;
        resources_.push_back(std::move(resource));
        by_value_.emplace(&value, made);
        *in = made;
      }
    }
    if (draft <= SchemaDraft::kDraft7 && parts.fragment && !parts.fragment->empty()) {
      resources_[static_cast<std::size_t>(*in)].anchors.emplace(std::string(*parts.fragment),
                                                                &value);
    }
  }
  if (draft < SchemaDraft::k2019) return {};
  Resource& resource = resources_[static_cast<std::size_t>(*in)];
  if (string_at(object, "$anchor", &text) != nullptr) resource.anchors.emplace(text, &value);
  if (string_at(object, "$dynamicAnchor", &text) != nullptr && draft >= SchemaDraft::k2020) {
    resource.anchors.emplace(text, &value);
    resource.dynamic_anchors.emplace(text, &value);
    has_dynamic_anchors_ = true;
  }
  const json::value* recursive = object.if_contains("$recursiveAnchor");
  if (recursive != nullptr && recursive->is_bool() && recursive->get_bool()) {
    resource.recursive_anchor = true;
    has_dynamic_anchors_ = true;
  }
  return {};
}

Status JsonSchemaDocument::index_schema(const json::value& value, int in, int depth) {
  const json::object* object = value.if_object();
  if (object == nullptr) return {};
  const std::size_t resources_before = resources_.size();
  QUIRE_RETURN_IF_ERROR(enter(value, *object, &in));
  QUIRE_RETURN_IF_ERROR(index_object(*object, in, depth));
  // What a resource within says depends on where it is.
  if (resources_.size() == resources_before) contents_.add(value);
  return {};
}

Status JsonSchemaDocument::index_object(const json::object& object, int in, int depth) {
  for (const auto& entry : object) {
    const std::string_view key = entry.key();
    const json::value& value = entry.value();
    if (is_among(kSchemaMapKeys, key) && value.is_object()) {
      for (const auto& member : value.get_object()) {
        QUIRE_RETURN_IF_ERROR(index_schema(member.value(), in, depth + 1));
      }
    } else if (is_among(kSchemaListKeys, key) && value.is_array()) {
      for (const json::value& item : value.get_array()) {
        QUIRE_RETURN_IF_ERROR(index_schema(item, in, depth + 1));
      }
    } else if (is_among(kSchemaKeys, key)) {
      QUIRE_RETURN_IF_ERROR(index_schema(value, in, depth + 1));
    }
  }
  return {};
}

SchemaPlace JsonSchemaDocument::child(SchemaPlace parent, const json::value& value) const {
  const auto found = by_value_.find(&value);
  return {&value, found == by_value_.end() ? parent.resource : found->second};
}

Result<SchemaPlace> JsonSchemaDocument::follow_pointer(int from, std::string_view pointer,
                                                       std::string_view reference) const {
  SchemaPlace at{resources_[static_cast<std::size_t>(from)].root, from};
  while (!pointer.empty()) {
    pointer.remove_prefix(1);
    const std::size_t slash = std::min(pointer.find('/'), pointer.size());
    std::string part;
    for (std::size_t i = 0; i < slash; ++i) {
      if (pointer[i] == '~' && i + 1 < slash) {
        part += pointer[i + 1] == '1' ? '/' : '~';
        ++i;
      } else {
        part += pointer[i];
      }
    }
    pointer.remove_prefix(slash);
    const json::value* next = nullptr;
    if (const json::object* object = at.value->if_object()) {
      next = object->if_contains(part);
    } else if (const json::array* array = at.value->if_array()) {
      std::size_t index = 0;
      const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
      if (parsed.ec == std::errc() && parsed.ptr == part.data() + part.size()) {
        next = array->if_contains(index);
      }
    }
    if (next == nullptr) {
      return Status::invalid_argument(
          fmt::format("JSON Schema: $ref {} leads nowhere: there is no {}", printable(reference),
                      printable(part)),
          "point to a schema inside the document");
    }
    at = child(at, *next);
  }
  return at;
}

Result<SchemaPlace> JsonSchemaDocument::resolve(SchemaPlace from,
                                                std::string_view reference) const {
  const UriParts parts = split_fragment(reference);
  int target = from.resource;
  if (!parts.address.empty()) {
    const std::string uri = resolve_uri(resource(from).uri, parts.address);
    const auto found = by_uri_.find(uri);
    if (found == by_uri_.end()) {
      return Status::invalid_argument(
          fmt::format("JSON Schema: $ref {} at {} is not in the schema, and nothing is fetched",
                      printable(reference), pointer_to(*from.value)),
          "put what it points to under $defs, with that $id");
    }
    if (found->second == kTwoOfOneName) {
      return Status::invalid_argument(
          fmt::format("JSON Schema: $ref {} at {}: two schemas have that $id", printable(reference),
                      pointer_to(*from.value)),
          "give each its own");
    }
    target = found->second;
  }
  SchemaPlace place{resources_[static_cast<std::size_t>(target)].root, target};
  if (parts.fragment && !parts.fragment->empty()) {
    const auto fragment = percent_decode(*parts.fragment);
    if (!fragment) {
      return Status::invalid_argument(
          fmt::format("JSON Schema: $ref {} has a broken escape", printable(reference)),
          "write a percent sign as %25");
    }
    if (fragment->starts_with('/')) {
      QUIRE_ASSIGN_OR_RETURN(place, follow_pointer(target, *fragment, reference));
    } else {
      const Resource& in = resources_[static_cast<std::size_t>(target)];
      const auto anchor = in.anchors.find(*fragment);
      if (anchor == in.anchors.end()) {
        return Status::invalid_argument(
            fmt::format("JSON Schema: $ref {} at {}: there is no such anchor", printable(reference),
                        pointer_to(*from.value)),
            "declare it with $anchor");
      }
      place.value = anchor->second;
    }
  }
  if (!place.value->is_object() && !place.value->is_bool()) {
    return Status::invalid_argument(
        fmt::format("JSON Schema: $ref {} points to {}, which is no schema", printable(reference),
                    json_kind_name(*place.value)),
        "point to an object or a boolean");
  }
  return place;
}

Result<SchemaPlace> JsonSchemaDocument::resolve_dynamic(SchemaPlace from,
                                                        std::string_view reference,
                                                        const std::vector<int>& scope) const {
  QUIRE_ASSIGN_OR_RETURN(const SchemaPlace plain, resolve(from, reference));
  const UriParts parts = split_fragment(reference);
  if (!parts.fragment) return plain;
  const std::string name(*parts.fragment);
  if (!resource(plain).dynamic_anchors.contains(name)) return plain;
  for (const int entered : scope) {
    const Resource& in = resources_[static_cast<std::size_t>(entered)];
    const auto found = in.dynamic_anchors.find(name);
    if (found != in.dynamic_anchors.end()) return SchemaPlace{found->second, entered};
  }
  return plain;
}

Result<SchemaPlace> JsonSchemaDocument::resolve_recursive(SchemaPlace from,
                                                          const std::vector<int>& scope) const {
  SchemaPlace place{resource(from).root, from.resource};
  if (!resource(from).recursive_anchor) return place;
  for (const int entered : scope) {
    const Resource& in = resources_[static_cast<std::size_t>(entered)];
    if (in.recursive_anchor) return SchemaPlace{in.root, entered};
  }
  return place;
}

std::string JsonSchemaDocument::pointer_to(const json::value& value) const {
  std::string pointer = "#";
  if (!find_pointer(*resources_.front().root, value, &pointer)) return "#";
  return std::string(printable(pointer));
}

}  // namespace quire
