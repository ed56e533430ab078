// Chat templates: from messages to the text of a prompt.
//
// A template is written in Jinja and comes with a model; Quire runs it with an interpreter of its
// own, to the byte as Hugging Face's transformers would (trim_blocks, lstrip_blocks, loop controls,
// tojson without HTML escapes, raise_exception, strftime_now, the generation statement). There are
// no host objects, and steps, output and depth are bounded, so that a hostile template can only
// fail. The rendered text is cut into what the template wrote and what came with the request: the
// tokenizer looks for control tokens in the former alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "text/text_segment.h"

namespace quire {

struct ChatTemplateLimits {
  std::uint64_t max_steps =
      4'000'000;  // of a tenth of a microsecond: expressions, loop turns, work
  std::uint64_t max_bytes = 64ULL << 20;  // of text and lists made on the way
  std::size_t max_output_bytes = std::size_t{8} << 20;
};

// What a template sees. As under Hugging Face, `messages`, `tools`, `documents` (None where absent)
// and `add_generation_prompt` are always defined.
struct ChatTemplateInput {
  json::array messages;
  std::optional<json::value> tools;
  std::optional<json::value> documents;
  json::object kwargs;  // further variables; they win over the special tokens
  bool add_generation_prompt = false;
  // Variables like {"bos_token", "<s>"}: the host's, so they count as text of the template.
  std::vector<std::pair<std::string, std::string>> special_tokens;
  std::tm local_time{};  // what strftime_now() shows; all fields set, as by localtime_r
  ChatTemplateLimits limits;
};

class ChatTemplate {
 public:
  // `where` names the template in errors: "chat template, line 12: unknown statement 'foo'". Errors
  // are kInvalidArgument, or kUnimplemented for a construct of Jinja that is not supported.
  static Result<ChatTemplate> parse(const std::string& source, std::string where);

  const std::string& source() const;

  // The prompt in order; neighbouring segments differ in origin, none is empty. Errors name the
  // line: kInvalidArgument (also raise_exception, whose message they carry), kUnimplemented,
  // kResourceExhausted. Safe to call from several threads at once.
  //
  // A message's role counts as template text where it is one of the usual ones ("user", "system",
  // ...), because templates build control tokens around it; everything else in the input does not.
  Result<std::vector<TextSegment>> render(const ChatTemplateInput& input) const;

 private:
  struct Parsed;
  ChatTemplate(std::shared_ptr<const Parsed> parsed, std::string where)
      : parsed_(std::move(parsed)), where_(std::move(where)) {}

  std::shared_ptr<const Parsed> parsed_;
  std::string where_;
};

// The text of all segments.
std::string join(const std::vector<TextSegment>& segments);

}  // namespace quire
