// A GGUF model in several files, as gguf-split of llama.cpp writes them: NAME-00001-of-00009.gguf
// and so on. Each is a GGUF file; the first has the keys of the model, and all have which part they
// are.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/status.h"
#include "weights/gguf_metadata.h"

namespace quire {

inline constexpr int kGgufMaxParts = 1'000;

// Which part of how many a file is; parts count from 1.
struct GgufPart {
  int number = 1;
  int count = 1;
};

// By its keys split.no and split.count; one of one where the file is whole. kBadModel where they
// make no sense. `file` is for messages.
Result<GgufPart> read_gguf_part(const GgufMetadata& metadata, const std::string& file);

// By its name; nullopt for another kind of name.
std::optional<GgufPart> gguf_part_of_name(const std::filesystem::path& path);

// The path of another part of the model that `path`, with a name of a part, belongs to.
std::filesystem::path other_gguf_part(const std::filesystem::path& path, int number);

}  // namespace quire
