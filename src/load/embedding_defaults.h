// How a model says that embeddings are made: the modules of a sentence-transformers folder, or a
// key of its GGUF file.
#pragma once

#include <string>

#include "base/pooling.h"
#include "base/status.h"
#include "weights/model_files.h"

namespace quire {

class GgufFile;

// What cannot be done as the model says is an error of embeddings alone, kConfig: the model may
// well be there to write text. Errors name file or key, and no folder of this machine.
struct EmbeddingDefaults {
  Pooling pooling = Pooling::kLast;  // of a decoder that says nothing, as in vLLM
  bool normalize = true;             // scaled to length 1, unless a request says otherwise
  std::string source = {};           // what says so: "1_Pooling/config.json"; empty: nothing does
  Status pooling_error = {};         // another pooling may be asked for
  Status error = {};                 // and this is none of pooling

  Status check() const { return error.ok() ? pooling_error : error; }
};

// From modules.json and the Pooling module's config.json, where the folder has them.
EmbeddingDefaults read_embedding_defaults(const ModelFiles& files);

// From `<architecture>.pooling_type`, where the file has it.
EmbeddingDefaults read_embedding_defaults(const GgufFile& file);

}  // namespace quire
