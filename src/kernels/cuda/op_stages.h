// The stages of ops on a GPU: named as on the CPU, where they are the same.
#pragma once

#include "base/span_recorder.h"

namespace quire::cuda {

inline constexpr Stage kWaitStage = {StageKind::kKernel, "wait for the GPU"};
inline constexpr Stage kCopyStage = {StageKind::kKernel, "copy"};
inline constexpr Stage kRouteStage = {StageKind::kKernel, "route"};
inline constexpr Stage kExpertsStage = {StageKind::kKernel, "experts"};
inline constexpr Stage kRopeAndCacheStage = {StageKind::kKernel, "rope, cache write"};
inline constexpr Stage kAttentionStage = {StageKind::kKernel, "attention"};
inline constexpr Stage kEmbeddingStage = {StageKind::kKernel, "embedding"};
inline constexpr Stage kGatherStage = {StageKind::kKernel, "gather rows"};
inline constexpr Stage kRmsNormStage = {StageKind::kKernel, "rms_norm"};
inline constexpr Stage kRmsNormAndAddStage = {StageKind::kKernel, "rms_norm_and_add"};
inline constexpr Stage kLayerNormStage = {StageKind::kKernel, "layer_norm"};
inline constexpr Stage kActivationStage = {StageKind::kKernel, "activation"};
inline constexpr Stage kPositionsStage = {StageKind::kKernel, "positions"};
inline constexpr Stage kScaleStage = {StageKind::kKernel, "scale_in_place"};
inline constexpr Stage kClampStage = {StageKind::kKernel, "clamp_in_place"};
inline constexpr Stage kSoftCapStage = {StageKind::kKernel, "soft_cap"};
inline constexpr Stage kBestStage = {StageKind::kKernel, "largest of rows"};
inline constexpr Stage kScaleAndAddStage = {StageKind::kKernel, "scale_and_add"};
inline constexpr Stage kAddGatedStage = {StageKind::kKernel, "add_gated"};
inline constexpr Stage kMultiplyStage = {StageKind::kKernel, "multiply_rows"};
inline constexpr Stage kKeepLargestStage = {StageKind::kKernel, "keep_largest"};
inline constexpr Stage kMatchStage = {StageKind::kKernel, "match_rms"};
inline constexpr Stage kPredictStage = {StageKind::kKernel, "predict streams"};
inline constexpr Stage kCorrectStage = {StageKind::kKernel, "correct streams"};
inline constexpr Stage kShortConvStage = {StageKind::kKernel, "short convolution"};
inline constexpr Stage kSampleStage = {StageKind::kSampling, "choose tokens"};

}  // namespace quire::cuda
