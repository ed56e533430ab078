// The text side of a model without its weights: its tokenizer and its chat template.
#pragma once

#include <memory>
#include <nanobind/nanobind.h>
#include <optional>
#include <string>
#include <utility>

#include "errors.h"
#include "gil.h"
#include "load/model_bundle.h"
#include "text/conversation.h"

namespace quire::python {

class TextModel {
 public:
  // Fetches the model's files where it is named as one of a hub. Errors as open_text().
  static std::unique_ptr<TextModel> open(const std::string& model);

  // What `call` makes of the tokenizer, a Result.
  template <typename Call>
  auto with_tokenizer(Call&& call) const {
    decltype(call(*text_.tokenizer)) result = Status::internal("not called");
    {
      const WithoutGil released;
      result = call(*text_.tokenizer);
    }
    return value_of(std::move(result));
  }

  // `conversation`: the JSON of apps/conversation.h.
  std::string render_chat(const std::string& conversation) const;
  std::vector<TokenId> encode_chat(const std::string& conversation, bool add_special_tokens) const;

 private:
  explicit TextModel(TextBundle text) : text_(std::move(text)) {}
  Result<std::vector<TextSegment>> render(const std::string& conversation) const;

  TextBundle text_;
};

// What a model is and what memory it would take, read from headers alone: JSON, as
// `quire inspect --json` prints it. `settings`: the JSON of engine_settings.h.
std::string inspect_model(const std::string& settings);

}  // namespace quire::python
