#include "engine/draft_model_parts.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "engine/draft_model.h"

namespace quire {
namespace {

constexpr const char* kAnother =
    "use a model of the same family and vocabulary, or the methods \"ngram\" or \"suffix\"";

// Padding of the embeddings apart, which no text has.
Status check_same_tokens(const Tokenizer& tokenizer, const Tokenizer& draft) {
  const std::size_t count = tokenizer.vocab_size();
  if (draft.vocab_size() != count) {
    return Status::config(fmt::format("--speculative-config: the draft model has {} tokens, the "
                                      "model {}",
                                      draft.vocab_size(), count),
                          kAnother);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto id = static_cast<TokenId>(i);
    if (tokenizer.token_text(id) == draft.token_text(id)) continue;
    return Status::config(
        fmt::format("--speculative-config: token {} is \"{}\" of the draft model, \"{}\" of the "
                    "model",
                    id, printable(draft.token_text(id), 40),
                    printable(tokenizer.token_text(id), 40)),
        kAnother);
  }
  return {};
}

}  // namespace

Result<std::optional<ModelBundle>> open_draft_model(const EngineArgs& args,
                                                    const ModelBundle& bundle) {
  if (!args.speculation || args.speculation->method != SpeculativeMethod::kDraftModel) {
    return std::optional<ModelBundle>();
  }
  auto draft = open_model(args.speculation->model, {});
  if (!draft.ok()) {
    const Status& status = draft.status();
    return Status(status.code(),
                  fmt::format("--speculative-config: the draft model: {}", status.message()),
                  status.remedy());
  }
  QUIRE_RETURN_IF_ERROR(check_same_tokens(*bundle.text.tokenizer, *draft->text.tokenizer));
  draft->text = {};  // as the model's
  return std::optional(std::move(*draft));
}

Result<std::unique_ptr<Drafter>> load_draft_model(const ModelBundle& draft, const DraftSizes& sizes,
                                                  std::int64_t vocab_size, Device& device,
                                                  const LoadProgress& progress) {
  const ModelRunnerConfig& config = sizes.runner;
  QUIRE_ASSIGN_OR_RETURN(
      auto model, Model::load(draft.spec, *draft.weights, config.max_model_len, device, progress));
  QUIRE_ASSIGN_OR_RETURN(auto runner, ModelRunner::create(*model, device, config));
  return std::unique_ptr<Drafter>(std::make_unique<DraftModel>(
      std::move(model), std::move(runner), config, sizes.kv_groups, vocab_size));
}

}  // namespace quire
