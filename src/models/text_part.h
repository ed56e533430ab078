// Checkpoints of more than text (`...ForConditionalGeneration`: images, too), run as text: the text
// model is one of the registry's, described by a configuration inside of the checkpoint's, its
// tensors have names of their own, and those of the other parts are skipped.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "models/spec.h"
#include "weights/weight_source.h"

namespace quire {

// What the text model's family reads.
struct TextPart {
  std::string_view architecture;  // of the registry
  json::object config;            // `text_config`, with what published files leave out
  bool says_tied = false;         // whether the file says if the embeddings serve as output
};

// nullopt where `architecture`, of the checkpoint, is none of those; kUnimplemented for a text
// model that none of the registry's families is.
Result<std::optional<TextPart>> read_text_part(const JsonReader& config,
                                               std::string_view architecture);

// Of such checkpoints, for messages.
std::vector<std::string> multimodal_architectures();

// Tensors of a checkpoint that the text model has no use for.
struct SkippedTensors {
  std::int64_t tensors = 0;
  std::uint64_t bytes = 0;
  std::vector<std::string> parts;  // "vision_tower", "multi_modal_projector"

  // "439 tensors, 839123456 bytes of vision_tower, multi_modal_projector"
  std::string to_text() const;
};

// A checkpoint's text tensors, and what was left out of them.
struct TextWeights {
  std::unique_ptr<WeightSource> weights;
  SkippedTensors skipped;
};

// Looks which of the published ways to name the text model's tensors `weights` has, and puts it
// into `spec.names`; where the configuration does not say whether embeddings are tied, the absence
// of an output matrix does. Of a checkpoint of text alone all weights, and
// where its names lack what stands before those of its base class, "transformer." or "model.", they
// are found without.
TextWeights select_text_weights(std::unique_ptr<WeightSource> weights, DecoderSpec& spec);

}  // namespace quire
