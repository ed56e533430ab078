#include "apps/chat/tools/call_runner.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/printable.h"
#include "serve/protocols/openai/tool_fields.h"

namespace quire {
namespace {

constexpr std::size_t kShownResultBytes = 400;
constexpr int kMaxArgumentDepth = 256;

// All of a text, fit for a terminal.
std::string whole(std::string_view text) { return printable(text, 4 * text.size() + 3); }

// What a failure tells the model.
std::string told(const Status& status) { return fmt::format("error: {}", status.message()); }

}  // namespace

Status check_functions(const std::vector<ChatFunction>& functions) {
  if (functions.size() > kMaxTools) {
    return Status::resource_exhausted(
        fmt::format("there are {} functions, at most {} are allowed", functions.size(), kMaxTools));
  }
  for (auto one = functions.begin(); one != functions.end(); ++one) {
    if (!is_tool_name(one->name)) {
      return Status::invalid_argument(fmt::format("no function can have the name \"{}\", of {}",
                                                  printable(one->name), printable(one->runs)),
                                      "expected 1 to 128 letters, digits, and any of _ - . : /");
    }
    const auto other = std::find_if(
        functions.begin(), one, [one](const ChatFunction& each) { return each.name == one->name; });
    if (other == one) continue;
    return Status::invalid_argument(
        fmt::format("there are two functions with the name {}: {}, and {}", printable(one->name),
                    printable(other->runs), printable(one->runs)),
        "a model calls functions by their names: rename one");
  }
  return {};
}

json::array CallRunner::tools() const {
  json::array tools;
  for (const ChatFunction& function : functions_) {
    tools.push_back(json::object{{"type", "function"}, {"function", function.declaration}});
  }
  return tools;
}

Status CallRunner::unknown(const std::string& name) const {
  std::vector<std::string_view> names;
  for (const ChatFunction& function : functions_) names.emplace_back(function.name);
  return Status::invalid_argument(fmt::format("there is no function {}; there are {}",
                                              printable(name), fmt::join(names, ", ")));
}

Result<bool> CallRunner::may_run(const ChatFunction& function) {
  if (!ask_ || always_.contains(function.name)) return true;
  while (true) {
    QUIRE_ASSIGN_OR_RETURN(
        const InputLine line,
        source_.read(fmt::format("run it? y(es), n(o), a(lways {}): ", function.name)));
    if (interrupts_.terminated()) return Status(StatusCode::kCancelled, "interrupted");
    if (line.kind != InputLine::Kind::kLine) return false;
    if (line.text == "y" || line.text == "yes") return true;
    if (line.text == "n" || line.text == "no") return false;
    if (line.text != "a" && line.text != "always") continue;
    always_.insert(function.name);
    return true;
  }
}

// Errors within the result are what the model is told.
Result<std::string> CallRunner::run(const AnsweredCall& call) {
  const auto function = std::ranges::find_if(
      functions_, [&call](const auto& each) { return each.name == call.name; });
  const std::string shown =
      fmt::format("(the model calls {} with {})", whole(call.name), whole(call.arguments));
  if (function == functions_.end()) {
    QUIRE_RETURN_IF_ERROR(view_.note(shown));
    return told(unknown(call.name));
  }
  const auto arguments = parse_json(call.arguments, "arguments", kMaxArgumentDepth);
  if (!arguments.ok() || !arguments->is_object()) {
    QUIRE_RETURN_IF_ERROR(view_.note(shown));
    return fmt::format("error: the arguments are no JSON object: {}",
                       printable(call.arguments, 1000));
  }
  QUIRE_RETURN_IF_ERROR(
      view_.note(fmt::format("{}\n(which runs {})", shown, whole(function->runs))));
  QUIRE_ASSIGN_OR_RETURN(const bool allowed, may_run(*function));
  if (!allowed) return std::string("error: the user does not want this call to be made");
  const std::stop_token stop = interrupts_.begin_answer();
  const Result<std::string> result = function->run(arguments->get_object(), stop);
  interrupts_.end_answer();
  if (interrupts_.terminated()) return Status(StatusCode::kCancelled, "interrupted");
  return result.ok() ? *result : told(result.status());
}

Result<json::object> CallRunner::answer(const AnsweredCall& call) {
  QUIRE_ASSIGN_OR_RETURN(const std::string result, run(call));
  QUIRE_RETURN_IF_ERROR(view_.note(
      fmt::format("({} gave: {})", printable(call.name), printable(result, kShownResultBytes))));
  return json::object{
      {"role", "tool"}, {"tool_call_id", call.id}, {"name", call.name}, {"content", result}};
}

}  // namespace quire
