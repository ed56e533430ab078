// What the tensors of a GGUF file show of a model.
#include <algorithm>
#include <string>
#include <variant>

#include <fmt/format.h>

#include "models/config_keys.h"
#include "models/gguf_form.h"
#include "models/gguf_rope.h"

namespace quire {
namespace {

constexpr TensorName kGgufNames[] = {
    {TensorRole::kEmbedding, "token_embd.weight"},
    {TensorRole::kEmbeddingNorm, "token_embd_norm.weight"},
    {TensorRole::kEmbeddingNormBias, "token_embd_norm.bias"},
    {TensorRole::kPositions, "position_embd.weight"},
    {TensorRole::kFinalNorm, "output_norm.weight"},
    {TensorRole::kFinalNormBias, "output_norm.bias"},
    {TensorRole::kOutput, "output.weight"},
    {TensorRole::kOutputBias, "output.bias"},
    {TensorRole::kInputNorm, "blk.{layer}.attn_norm.weight"},
    {TensorRole::kInputNormBias, "blk.{layer}.attn_norm.bias"},
    {TensorRole::kQueryKeyValue, "blk.{layer}.attn_qkv.weight"},
    {TensorRole::kQueryKeyValueBias, "blk.{layer}.attn_qkv.bias"},
    {TensorRole::kQuery, "blk.{layer}.attn_q.weight"},
    {TensorRole::kKey, "blk.{layer}.attn_k.weight"},
    {TensorRole::kValue, "blk.{layer}.attn_v.weight"},
    {TensorRole::kQueryBias, "blk.{layer}.attn_q.bias"},
    {TensorRole::kKeyBias, "blk.{layer}.attn_k.bias"},
    {TensorRole::kValueBias, "blk.{layer}.attn_v.bias"},
    {TensorRole::kQueryNorm, "blk.{layer}.attn_q_norm.weight"},
    {TensorRole::kKeyNorm, "blk.{layer}.attn_k_norm.weight"},
    {TensorRole::kAttentionSinks, "blk.{layer}.attn_sinks.weight"},
    {TensorRole::kQueryDown, "blk.{layer}.attn_q_a.weight"},
    {TensorRole::kQueryDownBias, "blk.{layer}.attn_q_a.bias"},
    {TensorRole::kQueryDownNorm, "blk.{layer}.attn_q_a_norm.weight"},
    {TensorRole::kQueryUp, "blk.{layer}.attn_q_b.weight"},
    {TensorRole::kLatent, "blk.{layer}.attn_kv_a_mqa.weight"},
    {TensorRole::kLatentBias, "blk.{layer}.attn_kv_a_mqa.bias"},
    {TensorRole::kLatentNorm, "blk.{layer}.attn_kv_a_norm.weight"},
    {TensorRole::kLatentUp, "blk.{layer}.attn_kv_b.weight"},
    {TensorRole::kLatentKeys, "blk.{layer}.attn_k_b.weight"},
    {TensorRole::kLatentValues, "blk.{layer}.attn_v_b.weight"},
    {TensorRole::kShortConvInput, "blk.{layer}.shortconv.in_proj.weight"},
    {TensorRole::kShortConvInputBias, "blk.{layer}.shortconv.in_proj.bias"},
    {TensorRole::kShortConv, "blk.{layer}.shortconv.conv.weight"},
    {TensorRole::kShortConvBias, "blk.{layer}.shortconv.conv.bias"},
    {TensorRole::kShortConvOutput, "blk.{layer}.shortconv.out_proj.weight"},
    {TensorRole::kShortConvOutputBias, "blk.{layer}.shortconv.out_proj.bias"},
    {TensorRole::kAttentionOutput, "blk.{layer}.attn_output.weight"},
    {TensorRole::kAttentionBias, "blk.{layer}.attn_output.bias"},
    {TensorRole::kAttentionOutputNorm, "blk.{layer}.post_attention_norm.weight"},
    {TensorRole::kMlpNorm, "blk.{layer}.ffn_norm.weight"},
    {TensorRole::kMlpNormBias, "blk.{layer}.ffn_norm.bias"},
    {TensorRole::kGateUp, "blk.{layer}.ffn_up.weight"},  // of both where there is no gate
    {TensorRole::kGate, "blk.{layer}.ffn_gate.weight"},
    {TensorRole::kUp, "blk.{layer}.ffn_up.weight"},
    {TensorRole::kDown, "blk.{layer}.ffn_down.weight"},
    {TensorRole::kGateBias, "blk.{layer}.ffn_gate.bias"},
    {TensorRole::kUpBias, "blk.{layer}.ffn_up.bias"},
    {TensorRole::kDownBias, "blk.{layer}.ffn_down.bias"},
    {TensorRole::kMlpOutputNorm, "blk.{layer}.post_ffw_norm.weight"},
    {TensorRole::kPerLayerEmbedding, "per_layer_token_embd.weight"},
    {TensorRole::kPerLayerProjection, "per_layer_model_proj.weight"},
    {TensorRole::kPerLayerProjectionNorm, "per_layer_proj_norm.weight"},
    {TensorRole::kPerLayerGate, "blk.{layer}.inp_gate.weight"},
    {TensorRole::kPerLayerOutput, "blk.{layer}.proj.weight"},
    {TensorRole::kPerLayerOutputNorm, "blk.{layer}.post_norm.weight"},
    {TensorRole::kAltUpProjections, "altup_proj.weight"},
    {TensorRole::kAltUpUnembeddings, "altup_unembd_proj.weight"},
    {TensorRole::kAltUpRouter, "blk.{layer}.altup_router.weight"},
    {TensorRole::kAltUpRouterNorm, "blk.{layer}.altup_router_norm.weight"},
    {TensorRole::kAltUpPredict, "blk.{layer}.altup_predict_coef.weight"},
    {TensorRole::kAltUpCorrect, "blk.{layer}.altup_correct_coef.weight"},
    {TensorRole::kAltUpScale, "blk.{layer}.altup_correct_scale.weight"},
    {TensorRole::kLaurelLeft, "blk.{layer}.laurel_l.weight"},
    {TensorRole::kLaurelRight, "blk.{layer}.laurel_r.weight"},
    {TensorRole::kLaurelNorm, "blk.{layer}.laurel_post_norm.weight"},
    {TensorRole::kLayerScale, "blk.{layer}.layer_output_scale.weight"},
    {TensorRole::kRouter, "blk.{layer}.ffn_gate_inp.weight"},
    {TensorRole::kRouterBias, "blk.{layer}.exp_probs_b.bias"},
    {TensorRole::kRouterLogitBias, "blk.{layer}.ffn_gate_inp.bias"},
    {TensorRole::kExpertGates, "blk.{layer}.ffn_gate_exps.weight"},
    {TensorRole::kExpertUps, "blk.{layer}.ffn_up_exps.weight"},
    {TensorRole::kExpertGateUps, "blk.{layer}.ffn_gate_up_exps.weight"},
    {TensorRole::kExpertDowns, "blk.{layer}.ffn_down_exps.weight"},
    {TensorRole::kExpertGateBiases, "blk.{layer}.ffn_gate_exps.bias"},
    {TensorRole::kExpertUpBiases, "blk.{layer}.ffn_up_exps.bias"},
    {TensorRole::kExpertDownBiases, "blk.{layer}.ffn_down_exps.bias"},
    {TensorRole::kSharedGate, "blk.{layer}.ffn_gate_shexp.weight"},
    {TensorRole::kSharedUp, "blk.{layer}.ffn_up_shexp.weight"},
    {TensorRole::kSharedDown, "blk.{layer}.ffn_down_shexp.weight"},
    {TensorRole::kSharedExpertGate, "blk.{layer}.ffn_gate_inp_shexp.weight"},
};

class TensorSigns {
 public:
  TensorSigns(const GgufFile& file, const GgufForm& form, DecoderSpec& spec)
      : file_(file), form_(form), spec_(spec) {}

  Status take() {
    spec_.altup.stacked = true;
    if (const TensorInfo* table = matrix(TensorRole::kPerLayerEmbedding); table != nullptr) {
      spec_.per_layer.vocab_size = table->shape[0];
    }
    for (std::int64_t i = 0; i < spec_.num_layers(); ++i) {
      LayerSpec& layer = spec_.layers[static_cast<std::size_t>(i)];
      layer_ = i;
      if (layer.laurel_rank != 0) take_laurel(layer);
      if (layer.kv_layer() != kOwnKeys) skip_keys();
      std::visit([&](auto& mixer) { take(mixer); }, layer.mixer);
      std::visit([&](auto& feed_forward) { take(feed_forward); }, layer.feed_forward);
      if (MoeSpec* const moe = std::get_if<MoeSpec>(&layer.feed_forward)) {
        QUIRE_RETURN_IF_ERROR(check_router(*moe));
      }
    }
    return {};
  }

 private:
  bool has(TensorRole role) const { return file_.find(spec_.names.name(role, layer_)) != nullptr; }

  // Null where there is none, and where it is no matrix.
  const TensorInfo* matrix(TensorRole role) const {
    const TensorInfo* const tensor = file_.find(spec_.names.name(role, layer_));
    return tensor == nullptr || tensor->shape.size() != 2 ? nullptr : tensor;
  }

  // There is no key for it.
  void take_laurel(LayerSpec& layer) const {
    const TensorInfo* const left = matrix(TensorRole::kLaurelLeft);
    if (left != nullptr) layer.laurel_rank = left->shape[0];
  }

  // Published files have keys and values of layers that read those of others.
  void skip_keys() const {
    for (const std::string_view name : {"attn_k.", "attn_v.", "attn_k_norm."}) {
      spec_.unread_tensors.push_back(fmt::format("blk.{}.{}", layer_, name));
    }
  }

  void take(AttentionSpec& attention) const {
    attention.fused_projections = has(TensorRole::kQueryKeyValue);
    attention.fused_by_head = false;  // the converter has put them apart
    if (form_.values_may_be_keys && !attention.fused_projections) {
      attention.values_are_keys = has(TensorRole::kKey) && !has(TensorRole::kValue);
    }
    attention.query_key_value_bias |=
        has(TensorRole::kQueryBias) || has(TensorRole::kQueryKeyValueBias);
    attention.output_bias |= has(TensorRole::kAttentionBias);
  }

  void take(LatentAttentionSpec& attention) const {
    attention.split_up = has(TensorRole::kLatentKeys);
    attention.bias |= has(TensorRole::kLatentBias);
  }

  void take(ShortConvSpec& conv) const {
    conv.flat = true;
    conv.bias |= has(TensorRole::kShortConvBias);
  }

  void take(GatedMlpSpec& mlp) const {
    mlp.fused_gate_up = !has(TensorRole::kGate);
    mlp.bias |= has(TensorRole::kGateBias);
  }

  void take(PlainMlpSpec& mlp) const { mlp.bias |= has(TensorRole::kUpBias); }

  void take(MoeSpec& moe) const {
    moe.tensors =
        has(TensorRole::kExpertGateUps) ? ExpertTensors::kStackedGateUp : ExpertTensors::kStacked;
    if (moe.choice_bias == ChoiceBias::kNone) return;
    const TensorInfo* bias = file_.find(spec_.names.name(TensorRole::kRouterBias, layer_));
    const bool is_row = bias != nullptr && bias->shape.size() == 2;
    moe.choice_bias = is_row ? ChoiceBias::kRow : ChoiceBias::kVector;
  }

  // The family knows the function of scores, and the file may say another.
  Status check_router(const MoeSpec& moe) const {
    const std::string key = fmt::format("{}.expert_gating_func", form_.architecture);
    QUIRE_ASSIGN_OR_RETURN(const auto said, file_.find_int(key));
    constexpr std::int64_t kNotSaid = 0;
    constexpr std::int64_t kSoftmax = 1;
    constexpr std::int64_t kSigmoid = 2;
    constexpr std::int64_t kSoftmaxOfChosen = 3;  // the same where their weights sum to one
    const std::int64_t function = said.value_or(kNotSaid);
    const bool sigmoid = moe.routing.score == RouterScore::kSigmoid;
    if (function == kNotSaid || function == (sigmoid ? kSigmoid : kSoftmax) ||
        (function == kSoftmaxOfChosen && !sigmoid && moe.routing.weights_sum_to_one)) {
      return {};
    }
    return unsupported(file_.name(), key, fmt::format("{}", function));
  }

  const GgufFile& file_;
  const GgufForm& form_;
  DecoderSpec& spec_;
  std::int64_t layer_ = 0;
};

}  // namespace

Status take_gguf_tensors(const GgufFile& file, const GgufForm& form, DecoderSpec& spec) {
  spec.names = {.own = form.names, .shared = kGgufNames};
  spec.norm.weight_offset = 0.0;  // the converter has added it
  spec.transposed_matrices = false;
  if (form.paired_rows) spec.rope_style = RopeStyle::kInterleaved;
  QUIRE_ASSIGN_OR_RETURN(spec.max_position_embeddings,
                         file.get_int(fmt::format("{}.context_length", form.architecture)));
  QUIRE_ASSIGN_OR_RETURN(const std::int64_t blocks,
                         file.get_int(fmt::format("{}.block_count", form.architecture)));
  spec.unread_tensors.clear();
  for (std::int64_t i = spec.num_layers(); i < blocks; ++i) {
    spec.unread_tensors.push_back(fmt::format("blk.{}.", i));
  }
  QUIRE_RETURN_IF_ERROR(TensorSigns(file, form, spec).take());
  return take_gguf_rope_factors(file, spec);
}

}  // namespace quire
