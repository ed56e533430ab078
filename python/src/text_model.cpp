#include "text_model.h"

#include <vector>

#include "apps/conversation.h"
#include "apps/local_model.h"
#include "apps/model_report.h"
#include "base/json.h"
#include "base/log.h"
#include "engine/chat_input.h"
#include "engine/draft_model_parts.h"
#include "engine/engine_sizing.h"
#include "engine_settings.h"
#include "models/decoder_model.h"

namespace quire::python {

namespace nb = nanobind;

namespace {

Result<TextBundle> open_text_of(const std::string& model) {
  QUIRE_ASSIGN_OR_RETURN(const std::string path, local_model(model));
  return open_text(path);
}

Result<std::string> report(const std::string& settings) {
  std::vector<std::string> notes;
  QUIRE_ASSIGN_OR_RETURN(EngineSettings read, read_engine_settings(settings, notes));
  for (const std::string& note : notes) log_info("{}", note);
  EngineArgs& args = read.args;
  QUIRE_RETURN_IF_ERROR(make_models_local(args));
  const std::uint64_t heap_before = heap_bytes();
  QUIRE_ASSIGN_OR_RETURN(const ModelBundle bundle, open_model(args.model, args.tokenizer));
  QUIRE_RETURN_IF_ERROR(check_tensors(bundle.spec, *bundle.weights));
  const std::uint64_t table_bytes = heap_bytes() - heap_before;
  QUIRE_ASSIGN_OR_RETURN(const auto draft, open_draft_model(args, bundle));
  QUIRE_ASSIGN_OR_RETURN(const ComputeDevice device, choose_device(args.device, args.n_gpu_layers));
  const auto sizes = size_engine(args, bundle, draft, table_bytes, device);
  return json::serialize(model_report(bundle, sizes));
}

}  // namespace

std::unique_ptr<TextModel> TextModel::open(const std::string& model) {
  Result<TextBundle> text = Status::internal("not opened");
  {
    const WithoutGil released;
    text = open_text_of(model);
  }
  return std::unique_ptr<TextModel>(new TextModel(value_of(std::move(text))));
}

Result<std::vector<TextSegment>> TextModel::render(const std::string& conversation) const {
  if (!text_.chat_template) {
    return Status::config("the model has no chat template", "give a plain prompt");
  }
  QUIRE_ASSIGN_OR_RETURN(const json::value value, parse_json(conversation, "conversation"));
  QUIRE_ASSIGN_OR_RETURN(const Conversation read, parse_conversation(value, "conversation"));
  return render_conversation(*text_.chat_template, read, chat_input(*text_.tokenizer));
}

std::string TextModel::render_chat(const std::string& conversation) const {
  return with_tokenizer([&](const Tokenizer&) -> Result<std::string> {
    QUIRE_ASSIGN_OR_RETURN(const auto segments, render(conversation));
    return join(segments);
  });
}

std::vector<TokenId> TextModel::encode_chat(const std::string& conversation,
                                            bool add_special_tokens) const {
  return with_tokenizer([&](const Tokenizer& tokenizer) -> Result<std::vector<TokenId>> {
    QUIRE_ASSIGN_OR_RETURN(const auto segments, render(conversation));
    return tokenizer.encode(std::span<const TextSegment>(segments), add_special_tokens);
  });
}

std::string inspect_model(const std::string& settings) {
  Result<std::string> text = Status::internal("not read");
  {
    const WithoutGil released;
    text = report(settings);
  }
  return value_of(std::move(text));
}

}  // namespace quire::python
