#include "text/grammar/json_schema.h"

#include <fmt/format.h>

#include "text/grammar/json_schema_emit.h"
#include "text/grammar/json_schema_space.h"

namespace quire {

Result<Grammar> json_schema_grammar(const json::value& schema, const JsonSchemaOptions& options,
                                    GrammarBudget& budget) {
  QUIRE_ASSIGN_OR_RETURN(const JsonSchemaDocument document, JsonSchemaDocument::index(schema));
  SchemaSpace space(document, options, budget);
  GrammarBuilder builder(budget);
  SchemaEmitter emitter(space, builder);
  return emitter.emit(space.root());
}

Result<Grammar> json_schema_grammar(std::string_view text, const JsonSchemaOptions& options,
                                    GrammarBudget& budget) {
  if (text.size() > JsonSchemaOptions::kMaxSchemaBytes) {
    return Status::resource_exhausted(fmt::format("JSON Schema: {} bytes, more than {}",
                                                  text.size(), JsonSchemaOptions::kMaxSchemaBytes),
                                      "use a smaller schema");
  }
  QUIRE_ASSIGN_OR_RETURN(const json::value schema,
                         parse_json(text, "JSON Schema", JsonSchemaDocument::kMaxDepth));
  return json_schema_grammar(schema, options, budget);
}

Result<Grammar> json_object_grammar(const JsonSchemaOptions& options, GrammarBudget& budget) {
  const json::value schema({{"type", "object"}});
  return json_schema_grammar(schema, options, budget);
}

}  // namespace quire
