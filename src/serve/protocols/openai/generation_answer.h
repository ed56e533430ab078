// The answer to a request for text: collects or streams the outputs of its prompts. How a choice
// looks is the format's business, completions' or chat completions'.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "serve/generation/answer_reader.h"
#include "serve/http/exchange.h"
#include "serve/models/served_model.h"
#include "serve/protocols/openai/generation_options.h"

namespace quire {

// One prompt as it was submitted.
struct AnsweredPrompt {
  std::vector<TokenId> token_ids;
  std::string echo;            // text that goes before the output, where the request asks for it
  AnswerParsing parsing = {};  // of its outputs
};

// One output, as a whole or as the piece of it that came last.
struct AnsweredOutput {
  std::string text;  // the content
  std::string reasoning;
  std::vector<AnsweredCall> calls;
  std::vector<TokenId> token_ids;
  std::vector<PositionLogprobs> logprobs;
  std::vector<bool> forced_tokens;  // RequestOutput::forced_tokens
  bool finished = false;
  std::string finish_reason;     // when finished
  json::value stop_reason;       // the stop string or token id, else null
  json::value why;               // when finished, where it is asked for: see short_story()
  std::int64_t text_offset = 0;  // characters of the text before this piece
  bool first = true;             // the output's first piece
};

class ChoiceFormat {
 public:
  virtual ~ChoiceFormat() = default;

  virtual std::string_view id_prefix() const = 0;     // "cmpl-"
  virtual std::string_view object() const = 0;        // "text_completion"
  virtual std::string_view chunk_object() const = 0;  // of a stream
  // Appends the JSON text of an element of "choices". `prompt_logprobs` are those of its prompt.
  virtual void append_choice(std::string& out, const AnsweredPrompt& prompt, std::int64_t index,
                             const AnsweredOutput& output,
                             const std::vector<PositionLogprobs>& prompt_logprobs) const = 0;
  // Appends the JSON text of an element of "choices" of a chunk.
  virtual void append_chunk_choice(std::string& out, const AnsweredPrompt& prompt,
                                   std::int64_t index, const AnsweredOutput& piece,
                                   const std::vector<PositionLogprobs>& prompt_logprobs) const = 0;
  // Whether each choice has `prompt_logprobs` and `prompt_token_ids`, where they are asked for, or
  // the whole answer (of a stream its first chunk), as vLLM has it.
  virtual bool choices_tell_of_prompts() const = 0;
};

// Appends what a finished choice of any format says of its end, with a comma before it.
void append_end_of_choice(std::string& out, const AnsweredOutput& output);
// The same of token ids, of a field of that name.
void append_token_ids(std::string& out, std::string_view name, std::span<const TokenId> ids);
// The same of RequestOutput::forced_tokens.
void append_forced_tokens(std::string& out, const std::vector<bool>& forced);

struct GenerationJob {
  GenerationOptions options;
  std::vector<AnsweredPrompt> prompts;
  std::string_view prompt_field = "prompt";  // that they came in
  bool drop_output = false;                  // only the prompt is wanted (echo with no tokens)
  bool fits_max_tokens = false;              // max_tokens is not the request's: it may become less
  json::value sampling;                      // the report of sampling parameters, or null
  std::string ignored_fields;                // for the header; may be empty
  std::string model;                         // as the request names it
  ServedModel* served = nullptr;             // the model that it means
};

// Submits the job and answers on `exchange`, now and as its outputs come.
void answer_generation(std::shared_ptr<Exchange> exchange, GenerationJob job,
                       std::unique_ptr<const ChoiceFormat> format);

}  // namespace quire
