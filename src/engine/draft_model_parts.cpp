#include "engine/draft_model_parts.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/json.h"
#include "base/printable.h"
#include "engine/draft_model.h"
#include "engine/draft_runner.h"
#include "engine/state_drafter.h"
#include "models/draft_layers.h"
#include "weights/safetensors.h"

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

// The model's errors, with what it is.
template <typename T>
Result<T> as_drafting(std::string_view what, Result<T> result) {
  if (result.ok()) return result;
  const Status& status = result.status();
  return Status(status.code(), fmt::format("--speculative-config: {}: {}", what, status.message()),
                status.remedy());
}

// The layer behind the model's last. Its checkpoint is opened once more: the model's own is given
// away when it is loaded.
Result<ModelBundle> open_mtp(const EngineArgs& args, const ModelBundle& bundle) {
  QUIRE_ASSIGN_OR_RETURN(DecoderSpec spec, mtp_spec(bundle.spec));
  QUIRE_ASSIGN_OR_RETURN(ModelBundle draft, open_model(args.model, args.tokenizer));
  draft.spec = std::move(spec);
  QUIRE_RETURN_IF_ERROR(check_tensors(draft.spec, *draft.weights));
  return draft;
}

Result<ModelBundle> open_eagle(const EngineArgs& args, const ModelBundle& bundle) {
  constexpr std::uint64_t kMaxConfigBytes = 16U << 20;
  ModelBundle draft;
  QUIRE_ASSIGN_OR_RETURN(draft.files, find_model_files(args.speculation->model));
  if (!draft.files.config) {
    return Status::config(fmt::format("{}: there is no config.json", draft.files.path.string()),
                          "give the folder of an EAGLE checkpoint in Hugging Face's layout");
  }
  QUIRE_ASSIGN_OR_RETURN(const json::value config,
                         read_json_file(*draft.files.config, kMaxConfigBytes));
  if (!config.is_object()) {
    return Status::bad_model(fmt::format("{}: expected an object", draft.files.config->string()));
  }
  QUIRE_ASSIGN_OR_RETURN(draft.weights, open_safetensors(draft.files.path));
  const bool bias = draft.weights->find("fc.bias") != nullptr;
  QUIRE_ASSIGN_OR_RETURN(
      draft.spec,
      eagle_spec(JsonReader(config.get_object(), draft.files.config->string()), bundle.spec, bias));
  QUIRE_RETURN_IF_ERROR(check_tensors(draft.spec, *draft.weights));
  return draft;
}

}  // namespace

Result<std::optional<ModelBundle>> open_draft_model(const EngineArgs& args,
                                                    const ModelBundle& bundle) {
  if (!args.speculation || !args.speculation->computes()) return std::optional<ModelBundle>();
  const SpeculativeMethod method = args.speculation->method;
  if (method == SpeculativeMethod::kMtp) {
    QUIRE_ASSIGN_OR_RETURN(auto draft, as_drafting("method \"mtp\"", open_mtp(args, bundle)));
    draft.text = {};  // as the model's
    return std::optional(std::move(draft));
  }
  if (method == SpeculativeMethod::kEagle) {
    QUIRE_ASSIGN_OR_RETURN(auto draft, as_drafting("method \"eagle\"", open_eagle(args, bundle)));
    return std::optional(std::move(draft));
  }
  QUIRE_ASSIGN_OR_RETURN(auto draft,
                         as_drafting("the draft model", open_model(args.speculation->model, {})));
  QUIRE_RETURN_IF_ERROR(check_same_tokens(*bundle.text.tokenizer, *draft.text.tokenizer));
  draft.text = {};  // as the model's
  return std::optional(std::move(draft));
}

Result<std::unique_ptr<Drafter>> load_draft_model(const ModelBundle& draft, const DraftSizes& sizes,
                                                  const Model& model, Device& device) {
  const ModelRunnerConfig& config = sizes.runner;
  const bool reads_states = draft.spec.state_input.present;
  QUIRE_ASSIGN_OR_RETURN(
      auto loaded,
      reads_states
          ? Model::load_for(model, draft.spec, *draft.weights, config.max_model_len, device)
          : Model::load(draft.spec, *draft.weights, config.max_model_len, device, {}));
  QUIRE_ASSIGN_OR_RETURN(auto runner, ModelRunner::create(*loaded, device, config));
  auto steps = std::make_unique<DraftRunner>(std::move(loaded), std::move(runner), config,
                                             sizes.kv_groups, model.spec().vocab_size);
  if (reads_states) {
    return std::unique_ptr<Drafter>(std::make_unique<StateDrafter>(std::move(steps)));
  }
  return std::unique_ptr<Drafter>(std::make_unique<DraftModel>(std::move(steps)));
}

}  // namespace quire
