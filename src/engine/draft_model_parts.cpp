#include "engine/draft_model_parts.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/json.h"
#include "base/printable.h"
#include "engine/draft_model.h"
#include "engine/draft_runner.h"
#include "engine/medusa_drafter.h"
#include "engine/state_drafter.h"
#include "models/draft_layers.h"
#include "models/token_map.h"
#include "weights/file_kind.h"
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

Result<DraftBundle> open_whole(const std::string& path, const std::string& tokenizer) {
  DraftBundle draft;
  QUIRE_ASSIGN_OR_RETURN(static_cast<ModelBundle&>(draft), open_model(path, tokenizer));
  return draft;
}

// The layer behind the model's last. The checkpoint is opened once more: loading the model gives up
// the first one.
Result<DraftBundle> open_mtp(const EngineArgs& args, const ModelBundle& bundle) {
  QUIRE_ASSIGN_OR_RETURN(DecoderSpec spec, mtp_spec(bundle.spec));
  QUIRE_ASSIGN_OR_RETURN(DraftBundle draft, open_whole(args.model, args.tokenizer));
  draft.spec = std::move(spec);
  QUIRE_RETURN_IF_ERROR(check_tensors(draft.spec, *draft.weights));
  return draft;
}

Result<json::value> read_eagle_config(const ModelFiles& files) {
  if (files.config) return read_config_file(*files.config);
  return Status::config(fmt::format("{}: there is no config.json", files.path.string()),
                        "give the folder of an EAGLE checkpoint in Hugging Face's layout");
}

Result<DraftBundle> open_eagle(const EngineArgs& args, const ModelBundle& bundle) {
  DraftBundle draft;
  QUIRE_ASSIGN_OR_RETURN(draft.files, find_model_files(args.speculation->model));
  QUIRE_ASSIGN_OR_RETURN(const json::value config, read_eagle_config(draft.files));
  QUIRE_ASSIGN_OR_RETURN(draft.weights, open_safetensors(draft.files.path));
  const bool bias = draft.weights->find("fc.bias") != nullptr;
  QUIRE_ASSIGN_OR_RETURN(
      draft.spec,
      eagle_spec(JsonReader(config.get_object(), draft.files.config->string()), bundle.spec, bias));
  QUIRE_RETURN_IF_ERROR(check_tensors(draft.spec, *draft.weights));
  return draft;
}

Result<DraftBundle> open_eagle3(const EngineArgs& args, const ModelBundle& bundle) {
  DraftBundle draft;
  QUIRE_ASSIGN_OR_RETURN(draft.files, find_model_files(args.speculation->model));
  QUIRE_ASSIGN_OR_RETURN(const json::value config, read_eagle_config(draft.files));
  QUIRE_ASSIGN_OR_RETURN(draft.weights,
                         open_safetensors(draft.files.path, SafetensorsTypes::kQuantized));
  const bool midlayer = draft.weights->find("midlayer.hidden_norm.weight") != nullptr;
  QUIRE_ASSIGN_OR_RETURN(Eagle3Spec spec,
                         eagle3_spec(JsonReader(config.get_object(), draft.files.config->string()),
                                     bundle.spec, midlayer));
  draft.spec = std::move(spec.decoder);
  draft.inner_layers = std::move(spec.inner_layers);
  QUIRE_RETURN_IF_ERROR(check_tensors(draft.spec, *draft.weights));
  const TensorInfo* const map = draft.weights->find("d2t");
  if (map == nullptr && draft.spec.vocab_size == bundle.spec.vocab_size) return draft;
  if (map == nullptr || map->shape != std::vector{draft.spec.vocab_size}) {
    return Status::bad_model(fmt::format("{}: there is no tensor d2t of {} tokens",
                                         draft.files.path.string(), draft.spec.vocab_size),
                             "use a checkpoint that has it, or whose vocabulary is the model's");
  }
  QUIRE_ASSIGN_OR_RETURN(draft.token_map,
                         read_token_map(*map, /*offsets=*/true, bundle.spec.vocab_size));
  return draft;
}

// Heads are published as medusa_lm_head, by Text Generation Inference's converter too, or, for
// vLLM, as models are.
Result<DraftBundle> open_medusa(const EngineArgs& args, const ModelBundle& bundle) {
  constexpr std::string_view kMedusaWeights = "medusa_lm_head";
  DraftBundle draft;
  const std::filesystem::path folder = args.speculation->model;
  const auto there = [&](const std::string& name) {
    std::error_code error;
    return std::filesystem::is_regular_file(folder / name, error);
  };
  if (!there("config.json")) {
    return Status::not_found(fmt::format("{}: there is no config.json", folder.string()),
                             "give the folder of a Medusa checkpoint");
  }
  const bool own_name = there(fmt::format("{}.safetensors", kMedusaWeights));
  const std::string pickle = fmt::format("{}.pt", kMedusaWeights);
  if (!own_name && there(pickle)) return pickle_refused(folder / pickle);
  draft.files.path = folder;
  draft.files.config = folder / "config.json";
  QUIRE_ASSIGN_OR_RETURN(const json::value config, read_config_file(*draft.files.config));
  QUIRE_ASSIGN_OR_RETURN(draft.weights,
                         open_safetensors(folder, SafetensorsTypes::kQuantized,
                                          own_name ? kMedusaWeights : kHuggingFaceWeights));
  QUIRE_ASSIGN_OR_RETURN(draft.medusa,
                         medusa_spec(JsonReader(config.get_object(), draft.files.config->string()),
                                     *draft.weights, bundle.spec));
  return draft;
}

}  // namespace

Result<std::optional<DraftBundle>> open_draft_model(const EngineArgs& args,
                                                    const ModelBundle& bundle) {
  if (!args.speculation || !args.speculation->computes()) return std::optional<DraftBundle>();
  const auto open = [&]() -> Result<DraftBundle> {
    switch (args.speculation->method) {
      case SpeculativeMethod::kMtp:
        return as_drafting("method \"mtp\"", open_mtp(args, bundle));
      case SpeculativeMethod::kEagle:
        return as_drafting("method \"eagle\"", open_eagle(args, bundle));
      case SpeculativeMethod::kEagle3:
        return as_drafting("method \"eagle3\"", open_eagle3(args, bundle));
      case SpeculativeMethod::kMedusa:
        return as_drafting("method \"medusa\"", open_medusa(args, bundle));
      default:
        return as_drafting("the draft model", open_whole(args.speculation->model, {}));
    }
  };
  QUIRE_ASSIGN_OR_RETURN(auto draft, open());
  if (args.speculation->method == SpeculativeMethod::kDraftModel) {
    QUIRE_RETURN_IF_ERROR(check_same_tokens(*bundle.text.tokenizer, *draft.text.tokenizer));
  }
  draft.text = {};  // as the model's
  return std::optional(std::move(draft));
}

Result<std::unique_ptr<Drafter>> load_draft_model(const DraftBundle& draft, const DraftSizes& sizes,
                                                  std::span<const std::int32_t> token_tree,
                                                  const Model& model, Device& device) {
  const ModelRunnerConfig& config = sizes.runner;
  if (draft.medusa) {
    QUIRE_ASSIGN_OR_RETURN(
        auto medusa, load_medusa(*draft.medusa, *draft.weights, model.spec().vocab_size, device));
    QUIRE_ASSIGN_OR_RETURN(auto heads,
                           MedusaRunner::create(std::move(medusa), device,
                                                {.max_rows = config.max_num_seqs,
                                                 .eos_token_ids = config.eos_token_ids,
                                                 .activation_mode = config.activation_mode}));
    return std::unique_ptr<Drafter>(
        std::make_unique<MedusaDrafter>(std::move(heads), token_tree, config.max_num_seqs));
  }
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
    return std::unique_ptr<Drafter>(std::make_unique<StateDrafter>(std::move(steps), token_tree));
  }
  return std::unique_ptr<Drafter>(std::make_unique<DraftModel>(std::move(steps), token_tree));
}

}  // namespace quire
