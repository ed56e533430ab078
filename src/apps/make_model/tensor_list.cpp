#include "apps/make_model/tensor_list.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/random.h"

namespace quire {
namespace {

enum class Part : std::uint8_t {
  kEmbedding,
  kOutput,
  kFinalNorm,
  kAttentionNorm,
  kQuery,
  kKey,
  kValue,
  kAttentionOutput,
  kMlpNorm,
  kGate,
  kUp,
  kDown,
  kQueryNorm,
  kKeyNorm,
  kRouter,
  kExpertGate,
  kExpertUp,
  kExpertDown,
  kLatent,
  kLatentNorm,
  kLatentUp,
  kLatentKeys,
  kLatentValues
};

struct PartNames {
  std::string_view hugging_face;
  std::string_view gguf;
};

constexpr PartNames kNames[] = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"lm_head.weight", "output.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"model.layers.{}.input_layernorm.weight", "blk.{}.attn_norm.weight"},
    {"model.layers.{}.self_attn.q_proj.weight", "blk.{}.attn_q.weight"},
    {"model.layers.{}.self_attn.k_proj.weight", "blk.{}.attn_k.weight"},
    {"model.layers.{}.self_attn.v_proj.weight", "blk.{}.attn_v.weight"},
    {"model.layers.{}.self_attn.o_proj.weight", "blk.{}.attn_output.weight"},
    {"model.layers.{}.post_attention_layernorm.weight", "blk.{}.ffn_norm.weight"},
    {"model.layers.{}.mlp.gate_proj.weight", "blk.{}.ffn_gate.weight"},
    {"model.layers.{}.mlp.up_proj.weight", "blk.{}.ffn_up.weight"},
    {"model.layers.{}.mlp.down_proj.weight", "blk.{}.ffn_down.weight"},
    {"model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight"},
    {"model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight"},
    {"model.layers.{}.mlp.gate.weight", "blk.{}.ffn_gate_inp.weight"},
    {"model.layers.{}.mlp.experts.{}.gate_proj.weight", "blk.{}.ffn_gate_exps.weight"},
    {"model.layers.{}.mlp.experts.{}.up_proj.weight", "blk.{}.ffn_up_exps.weight"},
    {"model.layers.{}.mlp.experts.{}.down_proj.weight", "blk.{}.ffn_down_exps.weight"},
    {"model.layers.{}.self_attn.kv_a_proj_with_mqa.weight", "blk.{}.attn_kv_a_mqa.weight"},
    {"model.layers.{}.self_attn.kv_a_layernorm.weight", "blk.{}.attn_kv_a_norm.weight"},
    {"model.layers.{}.self_attn.kv_b_proj.weight", ""},
    {"", "blk.{}.attn_k_b.weight"},  // of kv_b, transposed
    {"", "blk.{}.attn_v_b.weight"},
};

// What a matrix may be for, as far as its encoding depends on it.
enum class Weightiness : std::uint8_t { kPlain, kRaised, kLogits, kRouter };

struct Recipe {
  std::string_view name;
  bool hugging_face;
  Encoding plain;   // most matrices
  Encoding raised;  // half of the value and down projections
  Encoding logits;  // the logits' matrix
};

constexpr Recipe kRecipes[] = {
    {"f32", true, Encoding::kF32, Encoding::kF32, Encoding::kF32},
    {"f16", true, Encoding::kF16, Encoding::kF16, Encoding::kF16},
    {"bf16", true, Encoding::kBF16, Encoding::kBF16, Encoding::kBF16},
    {"q8_0", false, Encoding::kQ8_0, Encoding::kQ8_0, Encoding::kQ8_0},
    {"q4_0", false, Encoding::kQ4_0, Encoding::kQ4_0, Encoding::kQ6_K},
    {"q4_1", false, Encoding::kQ4_1, Encoding::kQ4_1, Encoding::kQ6_K},
    {"q4_k_m", false, Encoding::kQ4_K, Encoding::kQ6_K, Encoding::kQ6_K},
};

Result<Recipe> find_recipe(std::string_view name, ModelFormat format) {
  std::vector<std::string_view> names;
  for (const Recipe& recipe : kRecipes) {
    if (format == ModelFormat::kHuggingFace && !recipe.hugging_face) continue;
    if (recipe.name == name) return recipe;
    names.push_back(recipe.name);
  }
  return Status::invalid_argument(
      fmt::format("--encoding {}: not one that --format {} has", name,
                  format == ModelFormat::kGguf ? "gguf" : "hf"),
      fmt::format("one of: {}{}", fmt::join(names, ", "),
                  format == ModelFormat::kGguf ? "" : "; --format gguf has more"));
}

// The nearest encoding of blocks of 32 for rows that a K encoding cannot have.
Encoding fitting(Encoding encoding, std::int64_t cols) {
  if (cols % encoding_traits(encoding).block_elements == 0) return encoding;
  return encoding == Encoding::kQ4_K ? Encoding::kQ5_0 : Encoding::kQ8_0;
}

// The layers whose value and down projections are raised: the first and last eighth, and every
// third between.
bool is_raised_layer(std::int64_t layer, std::int64_t num_layers) {
  const std::int64_t eighth = num_layers / 8;
  return layer < eighth || layer >= num_layers - eighth || (layer - eighth) % 3 == 2;
}

class Lister {
 public:
  Lister(const ModelShape& shape, ModelFormat format, const Recipe& recipe)
      : shape_(shape), format_(format), recipe_(recipe) {}

  MadeTensor& matrix(Part part, std::int64_t layer, std::int64_t rows, std::int64_t cols,
                     Weightiness weightiness = Weightiness::kPlain) {
    return tensors_.emplace_back(
        MadeTensor{.name = name(part, layer),
                   .encoding = fitting(encoding_of(weightiness), cols),
                   .rows = rows,
                   .cols = cols,
                   .stream = static_cast<std::uint64_t>(layer + 1) * std::size(kNames) +
                             static_cast<std::uint64_t>(part),
                   .zeros_from = std::numeric_limits<std::int64_t>::max()});
  }

  void norm(Part part, std::int64_t layer, std::int64_t size) {
    vector(name(part, layer), is_gguf() ? Encoding::kF32 : recipe_.plain,
           std::vector<float>(static_cast<std::size_t>(size), 1.0F));
  }

  void vector(std::string name, Encoding encoding, std::vector<float> values) {
    const auto size = static_cast<std::int64_t>(values.size());
    tensors_.push_back({.name = std::move(name),
                        .encoding = encoding,
                        .cols = size,
                        .is_vector = true,
                        .values = std::move(values)});
  }

  void layer(std::int64_t layer) {
    const Weightiness raised =
        is_raised_layer(layer, shape_.num_layers) ? Weightiness::kRaised : Weightiness::kPlain;
    norm(Part::kAttentionNorm, layer, shape_.hidden_size);
    if (shape_.family() == ShapeFamily::kDeepseekV2) {
      latent_attention(layer);
    } else {
      attention(layer, raised);
    }
    norm(Part::kMlpNorm, layer, shape_.hidden_size);
    if (shape_.family() == ShapeFamily::kQwen3Moe) {
      experts(layer, raised);
    } else {
      mlp(layer, raised);
    }
  }

  std::vector<MadeTensor> take() { return std::move(tensors_); }

 private:
  bool is_gguf() const { return format_ == ModelFormat::kGguf; }

  std::string name(Part part, std::int64_t layer, std::int64_t expert = 0) const {
    const PartNames& names = kNames[static_cast<std::size_t>(part)];
    return fmt::format(fmt::runtime(is_gguf() ? names.gguf : names.hugging_face), layer, expert);
  }

  // Tools for GGUF keep vectors and routers in F32 whatever the matrices have.
  Encoding encoding_of(Weightiness weightiness) const {
    switch (weightiness) {
      case Weightiness::kRaised:
        return recipe_.raised;
      case Weightiness::kLogits:
        return recipe_.logits;
      case Weightiness::kRouter:
        return is_gguf() ? Encoding::kF32 : recipe_.plain;
      case Weightiness::kPlain:
        break;
    }
    return recipe_.plain;
  }

  void attention(std::int64_t layer, Weightiness raised) {
    const std::int64_t hidden = shape_.hidden_size;
    const std::int64_t head = shape_.head_dim();
    const bool llama = shape_.family() == ShapeFamily::kLlama;
    const std::int64_t interleaved = is_gguf() && llama ? head : 0;
    matrix(Part::kQuery, layer, shape_.num_heads * head, hidden).interleaved_head_rows =
        interleaved;
    matrix(Part::kKey, layer, shape_.num_kv_heads * head, hidden).interleaved_head_rows =
        interleaved;
    matrix(Part::kValue, layer, shape_.num_kv_heads * head, hidden, raised);
    matrix(Part::kAttentionOutput, layer, hidden, shape_.num_heads * head);
    if (llama) return;
    norm(Part::kQueryNorm, layer, head);
    norm(Part::kKeyNorm, layer, head);
  }

  void latent_attention(std::int64_t layer) {
    const ShapeLatent& latent = shape_.latent;
    const std::int64_t heads = shape_.num_heads;
    const std::int64_t up = latent.key_dims + latent.value_dims;  // rows of a head in kv_b
    const std::int64_t hidden = shape_.hidden_size;
    matrix(Part::kQuery, layer, heads * (latent.key_dims + latent.rope_dims), hidden);
    matrix(Part::kLatent, layer, latent.latent_dims + latent.rope_dims, hidden);
    norm(Part::kLatentNorm, layer, latent.latent_dims);
    if (is_gguf()) {
      up_part(Part::kLatentKeys, layer, latent.key_dims,
              {.rows = latent.latent_dims, .period = up, .transposed = true});
      up_part(Part::kLatentValues, layer, latent.latent_dims,
              {.rows = latent.value_dims, .period = up, .first = latent.key_dims});
    } else {
      matrix(Part::kLatentUp, layer, heads * up, latent.latent_dims);
    }
    matrix(Part::kAttentionOutput, layer, hidden, heads * latent.value_dims);
  }

  // A matrix of each head, of the numbers of kv_b.
  void up_part(Part part, std::int64_t layer, std::int64_t cols, const RowsOfSource& rows) {
    MadeTensor& tensor = matrix(part, layer, shape_.num_heads * rows.rows, cols);
    tensor.matrices = shape_.num_heads;
    tensor.part = rows;
    tensor.stream += static_cast<std::uint64_t>(Part::kLatentUp) - static_cast<std::uint64_t>(part);
  }

  void mlp(std::int64_t layer, Weightiness raised) {
    const std::int64_t hidden = shape_.hidden_size;
    matrix(Part::kGate, layer, shape_.intermediate_size, hidden);
    matrix(Part::kUp, layer, shape_.intermediate_size, hidden);
    matrix(Part::kDown, layer, hidden, shape_.intermediate_size, raised);
  }

  void experts(std::int64_t layer, Weightiness raised) {
    const std::int64_t hidden = shape_.hidden_size;
    const std::int64_t width = shape_.experts.intermediate_size;
    matrix(Part::kRouter, layer, shape_.experts.num_experts, hidden, Weightiness::kRouter);
    matrix_of_each(Part::kExpertGate, layer, width, hidden, Weightiness::kPlain);
    matrix_of_each(Part::kExpertUp, layer, width, hidden, Weightiness::kPlain);
    matrix_of_each(Part::kExpertDown, layer, hidden, width, raised);
  }

  // One tensor of all experts in GGUF, a tensor of each in the Hugging Face layout.
  void matrix_of_each(Part part, std::int64_t layer, std::int64_t rows, std::int64_t cols,
                      Weightiness weightiness) {
    const std::int64_t num_experts = shape_.experts.num_experts;
    if (is_gguf()) {
      matrix(part, layer, num_experts * rows, cols, weightiness).matrices = num_experts;
      return;
    }
    for (std::int64_t expert = 0; expert < num_experts; ++expert) {
      MadeTensor& tensor = matrix(part, layer, rows, cols, weightiness);
      tensor.name = name(part, layer, expert);
      tensor.part.first = expert * rows;
    }
  }

  const ModelShape& shape_;
  ModelFormat format_;
  Recipe recipe_;
  std::vector<MadeTensor> tensors_;
};

constexpr std::int64_t kNoLayer = -1;

float random_weight(std::uint64_t stream, std::int64_t index) {
  // Four 16-bit uniform numbers have a variance of 65,536 squared / 3 together.
  constexpr float kScale = 0.02F / 37837.23F;
  const std::uint64_t bits = random_bits(stream, static_cast<std::uint64_t>(index));
  const auto sum = static_cast<std::int32_t>((bits & 0xFFFF) + (bits >> 16 & 0xFFFF) +
                                             (bits >> 32 & 0xFFFF) + (bits >> 48));
  return static_cast<float>(sum - 131070) * kScale;
}

}  // namespace

std::uint64_t MadeTensor::bytes() const {
  return static_cast<std::uint64_t>(rows) * encoded_row_bytes(encoding, cols).value_or(0);
}

std::int64_t MadeTensor::source_row(std::int64_t row) const {
  if (part.period != 0) {
    return row / part.rows * part.period + part.first + (part.transposed ? 0 : row % part.rows);
  }
  row += part.first;
  if (interleaved_head_rows == 0) return row;
  const std::int64_t in_head = row % interleaved_head_rows;
  return row - in_head + in_head % 2 * (interleaved_head_rows / 2) + in_head / 2;
}

Result<std::vector<MadeTensor>> list_tensors(const ModelShape& shape, ModelFormat format,
                                             std::string_view encoding,
                                             std::int64_t num_control_tokens) {
  QUIRE_ASSIGN_OR_RETURN(const Recipe recipe, find_recipe(encoding, format));
  Lister lister(shape, format, recipe);
  const std::int64_t first_control = shape.vocab_size - num_control_tokens;
  const bool tied = shape.tie_word_embeddings;
  MadeTensor& embedding =
      lister.matrix(Part::kEmbedding, kNoLayer, shape.vocab_size, shape.hidden_size,
                    tied ? Weightiness::kLogits : Weightiness::kPlain);
  if (tied) embedding.zeros_from = first_control;
  for (std::int64_t layer = 0; layer < shape.num_layers; ++layer) lister.layer(layer);
  lister.norm(Part::kFinalNorm, kNoLayer, shape.hidden_size);
  if (!tied) {
    lister
        .matrix(Part::kOutput, kNoLayer, shape.vocab_size, shape.hidden_size, Weightiness::kLogits)
        .zeros_from = first_control;
  }
  std::vector<float> factors = rope_frequency_factors(shape);
  if (format == ModelFormat::kGguf && !factors.empty()) {
    lister.vector("rope_freqs.weight", Encoding::kF32, std::move(factors));
  }
  return lister.take();
}

void random_row(std::uint64_t seed, const MadeTensor& tensor, std::int64_t row, float* out) {
  const std::int64_t source = tensor.source_row(row);
  if (source >= tensor.zeros_from) {
    std::fill_n(out, tensor.cols, 0.0F);
    return;
  }
  const std::uint64_t stream = random_bits(seed, tensor.stream);
  if (tensor.part.transposed) {
    for (std::int64_t i = 0; i < tensor.cols; ++i) {
      out[i] = random_weight(random_bits(stream, static_cast<std::uint64_t>(source + i)),
                             row % tensor.part.rows);
    }
    return;
  }
  const std::uint64_t of_row = random_bits(stream, static_cast<std::uint64_t>(source));
  for (std::int64_t i = 0; i < tensor.cols; ++i) out[i] = random_weight(of_row, i);
}

}  // namespace quire
