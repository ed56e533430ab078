// Prints the tables of request fields as JSON, for scripts/make_compatibility.py:
// [{"route", "fields": [{"name", "openai", "vllm", "effect", "note"}]}].
#include <cstdio>

#include "base/json.h"
#include "serve/protocols/llamacpp/llamacpp_request.h"
#include "serve/protocols/openai/request_fields.h"

int main() {
  using quire::FieldEffect;
  namespace json = quire::json;
  json::array routes;
  auto tables = quire::request_field_tables();
  tables.push_back(&quire::llama_completion_fields());
  tables.push_back(&quire::apply_template_fields());
  for (const quire::FieldTable* table : tables) {
    json::array fields;
    for (const quire::RequestField& field : table->fields) {
      const char* effect = field.effect == FieldEffect::kWorks  ? "works"
                           : field.effect == FieldEffect::kNone ? "none"
                                                                : "refused";
      fields.push_back(json::object{{"name", field.name},
                                    {"openai", (field.origin & quire::kOpenAi) != 0},
                                    {"vllm", (field.origin & quire::kVllm) != 0},
                                    {"effect", effect},
                                    {"note", field.note}});
    }
    routes.push_back(json::object{{"route", table->route}, {"fields", std::move(fields)}});
  }
  std::printf("%s\n", json::serialize(routes).c_str());
}
