// A chat template, a zero byte, a conversation (a JSON list of messages or an object with messages,
// tools, ...): rendering answers within its limits with a prompt or with an error, gives the same
// twice, and never lets a message's text count as the template's.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/json.h"
#include "text/chat_template.h"

namespace {

// Stands in no template; a template that contains it by chance is left out of the check.
constexpr std::string_view kForged = "<|forged_control_7f3a|>";

quire::ChatTemplateInput input_of(std::string_view conversation) {
  quire::ChatTemplateInput input;
  input.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  input.local_time.tm_year = 126;
  input.limits = {.max_steps = 20'000, .max_bytes = 4U << 20, .max_output_bytes = 1U << 16};
  const auto value = quire::parse_json(conversation, "fuzz");
  if (value.ok() && value->is_array()) {
    input.messages = value->get_array();
  } else if (value.ok() && value->is_object()) {
    for (const auto& entry : value->get_object()) {
      if (entry.key() == "messages" && entry.value().is_array()) {
        input.messages = entry.value().get_array();
      } else if (entry.key() == "tools") {
        input.tools = entry.value();
      } else {
        input.kwargs[entry.key()] = entry.value();
      }
    }
  }
  input.messages.push_back({{"role", "user"}, {"content", kForged}});
  input.add_generation_prompt = true;
  return input;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::size_t zero = bytes.find('\0');
  const std::string source(bytes.substr(0, zero));
  const std::string_view conversation =
      zero == std::string_view::npos ? std::string_view() : bytes.substr(zero + 1);
  const auto chat_template = quire::ChatTemplate::parse(source, "fuzz");
  if (!chat_template.ok()) {
    if (chat_template.status().message().empty()) std::abort();
    return 0;
  }
  const quire::ChatTemplateInput input = input_of(conversation);
  const auto segments = chat_template->render(input);
  const auto again = chat_template->render(input);
  if (segments.ok() != again.ok()) std::abort();
  if (!segments.ok()) {
    if (segments.status().message().empty()) std::abort();
    if (segments.status().code() == quire::StatusCode::kInternal) std::abort();
    if (segments.status().message() != again.status().message()) std::abort();
    return 0;
  }
  if (*segments != *again) std::abort();
  std::size_t total = 0;
  const bool spelled = source.find("forged") != std::string::npos;
  for (std::size_t i = 0; i < segments->size(); ++i) {
    const quire::TextSegment& segment = (*segments)[i];
    total += segment.text.size();
    if (segment.text.empty()) std::abort();
    if (i > 0 && segment.is_template == (*segments)[i - 1].is_template) std::abort();
    if (segment.is_template && !spelled && segment.text.find(kForged) != std::string::npos) {
      std::abort();
    }
  }
  if (total > input.limits.max_output_bytes) std::abort();
  return 0;
}
