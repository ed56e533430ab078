// How a person names a model that may not be on this machine.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace quire {

struct ModelLocator {
  enum class Kind {
    kPath,  // a folder or a file here
    kHub,   // a model of the Hugging Face hub
    kUrl,   // one GGUF file at an address
    kS3,    // a GGUF file or a folder of a bucket
  };

  Kind kind = Kind::kPath;
  std::string path;  // of kPath

  // Of kHub.
  std::string repo;               // "org/name"
  std::string revision = "main";  // a branch, a tag or a commit
  std::string file;               // which GGUF file: "Q4_K_M", or its name; empty: the only one

  std::string url;     // of kUrl: http:// or https://
  std::string bucket;  // of kS3
  std::string key;     // of kS3: of a .gguf file, or of a folder without the slash at its end

  // As it is written: "org/name@revision:file".
  std::string text() const;
};

// What `text` names: ORG/NAME[@REVISION][:GGUF], file:///PATH, http(s)://...gguf, s3://BUCKET/KEY,
// and everything else is a path. kInvalidArgument for an address of another kind, or one that names
// nothing.
Result<ModelLocator> parse_model_locator(std::string_view text);

}  // namespace quire
