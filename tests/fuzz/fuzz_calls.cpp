// Bytes as a list of functions, what is asked of their calls and a walk through the grammar that
// comes of it, in each dialect: an answer that ends is read again as calls of these functions, and
// nothing else where calls are required, whose arguments are valid under their schemas.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "fuzz/follow_grammar.h"
#include "text/dialects/answer_form.h"
#include "text/dialects/output_parser.h"
#include "text/grammar/json_schema.h"

namespace {

namespace json = quire::json;

constexpr std::size_t kMaxSteps = 600;

// Choices from the input; once that is used up, always the first.
class Choices {
 public:
  Choices(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  std::size_t of(std::size_t count) {
    if (at_ >= size_) return 0;
    return data_[at_++] % count;
  }
  bool used_up() const { return at_ >= size_; }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

json::value simple_schema(std::size_t which) {
  switch (which) {
    case 0:
      return {{"type", "string"}};
    case 1:
      return {{"type", "integer"}, {"minimum", -5}, {"maximum", 300}};
    case 2:
      return {{"type", "boolean"}};
    case 3:
      return {{"enum", json::array{"a", "</b>", 3, nullptr}}};
    case 4:
      return {{"type", json::array{"string", "null"}}, {"maxLength", 6}};
    case 5:
      return {{"type", "string"}, {"pattern", "^[a-z<|'\"\\\\]{1,5}$"}};
    case 6:
      return {{"type", "number"}};
    default:
      return json::object();
  }
}

json::value schema_of(Choices& choices, int depth) {
  const std::size_t which = choices.of(depth > 0 ? 10 : 8);
  if (which == 8)
    return {{"type", "array"}, {"items", schema_of(choices, depth - 1)}, {"maxItems", 2}};
  if (which < 8) return simple_schema(which);
  json::object properties;
  json::array required;
  const std::size_t count = choices.of(4);
  for (std::size_t i = 0; i < count; ++i) {
    constexpr std::string_view kNames[] = {"city", "n", "a b",
                                           "gr\xC3\xB6\xC3\x9F"
                                           "e"};
    properties[kNames[i]] = schema_of(choices, depth - 1);
    if (choices.of(2) == 0) required.push_back(json::value(kNames[i]));
  }
  json::object schema = {{"type", "object"}, {"properties", std::move(properties)}};
  if (!required.empty()) schema["required"] = std::move(required);
  if (choices.of(4) == 3) schema["additionalProperties"] = true;
  return schema;
}

quire::AnswerForm form_of(Choices& choices) {
  quire::AnswerForm form;
  const auto dialects = quire::tool_dialects();
  quire::AnswerForm::Calls calls;
  calls.dialect = &dialects[choices.of(dialects.size())];
  const std::size_t flags = choices.of(8);
  calls.required = (flags & 1) == 0;
  calls.parallel = (flags & 2) != 0;
  const auto reasoning = quire::reasoning_dialects();
  const std::size_t thinks = choices.of(reasoning.size() + 1);
  // Harmony's answers have both.
  const bool fits =
      thinks < reasoning.size() && reasoning[thinks].channels == calls.dialect->channels;
  if (fits) form.reasoning = &reasoning[thinks];
  form.start =
      fits && (flags & 4) != 0 ? quire::ReasoningStart::kOpen : quire::ReasoningStart::kUnsaid;
  const std::size_t count = 1 + choices.of(3);
  for (std::size_t i = 0; i < count; ++i) {
    json::value schema = schema_of(choices, 2);
    if (!schema.as_object().contains("properties")) {
      schema = {{"type", "object"}, {"properties", {{"v", std::move(schema)}}}};
    }
    calls.functions.push_back({.name = "f" + std::to_string(i),
                               .parameters = std::move(schema),
                               .strict = choices.of(2) == 0});
  }
  form.calls = std::move(calls);
  return form;
}

// The text of an answer; nullopt for one that does not end in time.
std::optional<std::string> walk(const std::shared_ptr<const quire::CompiledGrammar>& grammar,
                                Choices& choices) {
  quire::GrammarMatcher matcher(grammar);
  const quire::GrammarVocabulary& vocabulary = grammar->vocabulary();
  std::vector<std::uint32_t> mask(vocabulary.mask_words());
  std::string text;
  for (std::size_t step = 0; step < kMaxSteps; ++step) {
    const quire::Status status = matcher.fill_mask(mask);
    if (!status.ok()) {
      if (status.code() != quire::StatusCode::kResourceExhausted) std::abort();
      return std::nullopt;
    }
    if (matcher.can_end() && choices.used_up()) return text;
    // Without choices what closes something is taken, each in its turn, so that walks end.
    std::vector<quire::TokenId> closing;
    std::vector<quire::TokenId> allowed;
    for (std::size_t i = 0; i < vocabulary.size(); ++i) {
      if ((mask[i / 32] >> (i % 32) & 1) == 0) continue;
      const auto id = static_cast<quire::TokenId>(i);
      const std::string_view bytes = vocabulary.bytes(id);
      const bool closes =
          !bytes.empty() && std::string_view("\"'}])/>").find(bytes[0]) != std::string_view::npos;
      (closes ? closing : allowed).push_back(id);
    }
    allowed.insert(allowed.end(), closing.begin(), closing.end());
    const std::vector<quire::TokenId>& last = closing.empty() ? allowed : closing;
    const quire::TokenId id =
        choices.used_up() ? last[step % last.size()] : allowed[choices.of(allowed.size())];
    if (!matcher.accept(id)) std::abort();
    if (vocabulary.is_end(id)) return text;
    text += vocabulary.bytes(id);
  }
  return std::nullopt;
}

bool is_valid(const std::string& arguments, const json::value& schema) {
  quire::JsonSchemaOptions options;
  options.disable_additional_properties = true;
  quire::GrammarBudget budget(fuzz_grammar_limits());
  const auto grammar = quire::json_schema_grammar(schema, options, budget);
  if (!grammar.ok()) return true;  // too much for these limits
  const auto compiled = quire::compile_grammar(*grammar, fuzz_vocabulary(), fuzz_grammar_limits());
  if (!compiled.ok()) return true;
  quire::GrammarMatcher matcher(*compiled);
  return matcher.accept_text(arguments) && matcher.can_end();
}

void check(const quire::AnswerForm& form, const std::string& text) {
  json::array tools;
  for (const auto& function : form.calls->functions) {
    tools.push_back(
        json::object{{"type", "function"},
                     {"function", {{"name", function.name}, {"parameters", function.parameters}}}});
  }
  quire::OutputParser parser({form.calls->dialect, form.reasoning},
                             std::make_shared<const quire::ToolSet>(tools), form.start, 1);
  std::vector<quire::OutputEvent> events;
  parser.feed(text, events);
  parser.finish(events);
  std::vector<std::pair<std::string, std::string>> calls;
  for (const quire::OutputEvent& event : events) {
    if (event.kind == quire::OutputEvent::Kind::kCall) calls.emplace_back(event.text, "");
    if (event.kind == quire::OutputEvent::Kind::kArguments) calls.back().second += event.text;
    const bool content = event.kind == quire::OutputEvent::Kind::kContent;
    if (content && form.calls->required) std::abort();
  }
  if (form.calls->required && calls.empty()) std::abort();
  if (!form.calls->parallel && calls.size() > 1) std::abort();
  for (const auto& [name, arguments] : calls) {
    const std::size_t at = name.size() == 2 ? static_cast<std::size_t>(name[1] - '0') : 9;
    if (at >= form.calls->functions.size()) std::abort();
    const auto& function = form.calls->functions[at];
    const auto parsed = quire::parse_json(arguments, "arguments", 256);
    if (!parsed.ok() || !parsed->is_object()) std::abort();
    const bool held = form.calls->required || function.strict;
    if (held && !is_valid(arguments, function.parameters)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Choices choices(data, size);
  const quire::AnswerForm form = form_of(choices);
  quire::GrammarBudget budget(fuzz_grammar_limits());
  const auto grammar = quire::answer_grammar(form, nullptr, *fuzz_vocabulary(), budget);
  if (!grammar.ok()) {
    check_grammar_error(grammar.status());
    return 0;
  }
  const auto compiled = quire::compile_grammar(*grammar, fuzz_vocabulary(), fuzz_grammar_limits());
  if (!compiled.ok()) {
    check_grammar_error(compiled.status());
    return 0;
  }
  const auto text = walk(*compiled, choices);
  if (text) check(form, *text);
  return 0;
}
