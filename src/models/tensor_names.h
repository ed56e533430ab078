// What the tensors of a decoder are for, and what checkpoints call them.
#pragma once

#include <bitset>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

// Those after kAltUpUnembeddings exist once a layer; which of them a model has, and of which
// shape, its specification says.
enum class TensorRole : std::uint8_t {
  kEmbedding,
  kEmbeddingNorm,
  kEmbeddingNormBias,
  kPositions,  // a row for each position, added to the embeddings
  kFinalNorm,
  kFinalNormBias,
  kOutput,
  kOutputBias,
  kStateProjection,  // of layers that draft: what joins a token's embedding and a state
  kStateProjectionBias,
  kStateTokenNorm,  // of that embedding, and
  kStateNorm,       // of that state, before they are joined
  kDraftNorm,       // their final norm
  kPerLayerEmbedding,
  kPerLayerProjection,
  kPerLayerProjectionNorm,
  kAltUpProjections,  // of streams: these two exist once for each but the first, or have all
  kAltUpUnembeddings,
  kInputNorm,  // before attention
  kInputNormBias,
  kQueryKeyValue,  // the three as one matrix, in this order
  kQueryKeyValueBias,
  kQuery,
  kKey,
  kValue,
  kQueryBias,
  kKeyBias,
  kValueBias,
  kQueryNorm,
  kKeyNorm,
  kAttentionSinks,
  kQueryDown,  // of latent attention: what queries are made of
  kQueryDownBias,
  kQueryDownNorm,
  kQueryUp,
  kLatent,  // what is cached: the latent, then the key that turns
  kLatentBias,
  kLatentNorm,
  kLatentUp,    // of each head, its key that does not turn, then its value
  kLatentKeys,  // the same of all heads as two tensors of three dimensions, the keys' transposed
  kLatentValues,
  kShortConvInput,  // of a short convolution: what it is made of
  kShortConvInputBias,
  kShortConv,  // the taps of each channel
  kShortConvBias,
  kShortConvOutput,
  kShortConvOutputBias,
  kAttentionOutput,
  kAttentionBias,        // of kAttentionOutput
  kAttentionOutputNorm,  // after attention, before its residual is added
  kMlpNorm,              // before the MLP
  kMlpNormBias,
  kGateUp,  // both as one matrix, in this order
  kGate,
  kUp,
  kDown,
  kGateBias,
  kUpBias,
  kDownBias,
  kXieluAlphaP,  // of the activation of an MLP without a gate, before their softplus: one number
  kXieluAlphaN,
  kXieluBeta,  // one number without a dimension, as the next
  kXieluEpsilon,
  kMlpOutputNorm,  // after the MLP, before its residual is added
  kPerLayerGate,
  kPerLayerOutput,
  kPerLayerOutputNorm,
  kAltUpRouter,  // of streams
  kAltUpRouterNorm,
  kAltUpPredict,  // a row for each pair of streams
  kAltUpCorrect,  // a row for each stream
  kAltUpScale,
  kLaurelLeft,
  kLaurelRight,
  kLaurelNorm,
  kLayerScale,  // one number, of the layer's result
  kRouter,      // of a mixture of experts: a row for each expert
  kRouterBias,  // of choices alone
  kExpertGate,  // these three exist once for each expert
  kExpertUp,
  kExpertDown,
  kExpertGates,  // those of all experts as one tensor of three dimensions
  kExpertUps,
  kExpertGateUps,  // both, those of an expert below each other
  kExpertDowns,
  kRouterLogitBias,     // of kRouter's product
  kExpertGateUpBiases,  // of all experts, as their matrices have them
  kExpertGateBiases,    // both, where these are two tensors
  kExpertUpBiases,
  kExpertDownBiases,
  kSharedGate,  // of the expert that sees every token
  kSharedUp,
  kSharedDown,
  kSharedExpertGate,  // what its result goes through: one row
};

// Some of the roles: a bit for each value of the type.
using TensorRoles = std::bitset<256>;

// A tensor that a checkpoint must have.
struct TensorShape {
  TensorRole role;
  std::vector<std::int64_t> sizes;
  std::int64_t num_experts = 1;  // how many of them there are, one for each expert or stream
};

// "{layer}" in the pattern stands for the layer's number, "{expert}" for the expert's
// or the stream's.
struct TensorName {
  TensorRole role;
  std::string_view pattern;
};

// Where a model is a part of another, its names begin with `part` instead of `own`; those that do
// not begin with `own` stay as they are.
struct NamePrefix {
  std::string_view own;
  std::string_view part;
};

// The names of one family's tensors: its own, and those that it shares with others, for the roles
// that it does not name itself. Both are static data.
struct TensorNames {
  std::span<const TensorName> own;
  std::span<const TensorName> shared = {};
  NamePrefix prefix = {};
  std::int64_t first_layer = 0;  // the number that the checkpoint gives the first layer

  // As a name of this model is where it is a part.
  std::string placed(std::string_view name) const;

  // Empty where the family has no such tensor.
  std::string name(TensorRole role, std::int64_t layer = 0, std::int64_t expert = 0) const;
};

}  // namespace quire
