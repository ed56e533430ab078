// The GGUF form of a family, as data. llama.cpp's converter renames the keys and the tensors of a
// Hugging Face checkpoint; once they have their own names again, the one function that reads the
// family's config.json reads them.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "models/spec.h"
#include "weights/gguf.h"

namespace quire {

// `ARCHITECTURE.gguf`, or `gguf` where there is no such key, is what config.json calls `config`;
// "a.b" there is key b of the object a.
struct GgufKey {
  std::string_view gguf;
  std::string_view config;
};

// A tensor that is there exactly where config.json says true.
struct GgufSign {
  std::string_view tensor;
  std::string_view config;
};

// `ARCHITECTURE.key` has that number, or any but 0; or there is a tensor whose name ends so.
struct GgufCondition {
  std::string_view key = {};
  std::optional<double> value = {};
  std::string_view tensor = {};
};

struct GgufForm {
  std::string_view architecture;  // general.architecture
  // Where several families share the name: which of its files are this one's.
  std::optional<GgufCondition> when = {};
  std::span<const GgufKey> keys = {};      // besides those of all files
  std::span<const GgufSign> signs = {};    // nor has GGUF keys for these
  std::span<const TensorName> names = {};  // of tensors with other names than those of most
  std::string_view settings = {};  // a JSON object: what config.json says and no key of GGUF does
  bool mixture = false;            // it has the keys of experts
  bool latent = false;             // it has those of latent attention
  // `attention.head_count_kv` has a number for each layer; those with none are short convolutions.
  bool convolutions = false;
  const GgufForm* also = nullptr;  // another form of the same family
  // The converter has put those rows of queries and keys side by side that turn together.
  bool paired_rows = false;
  bool values_may_be_keys = false;  // in layers without a tensor of values
};

// Whether `file` is of that form.
Result<bool> has_gguf_form(const GgufFile& file, const GgufForm& form);

// What `from_config` makes of the file's keys, with its tensors' names, and with biases, fused
// matrices and tied embeddings as the tensors show them. Errors: those of `from_config` under
// config.json's names; kBadModel for a key that is missing or of the wrong kind; kUnimplemented by
// name for one that changes results and that the form does not read.
Result<DecoderSpec> read_gguf_form(const GgufFile& file, const GgufForm& form,
                                   Result<DecoderSpec> (*from_config)(const JsonReader&));

// The file's keys as config.json has them.
Result<json::object> gguf_config(const GgufFile& file, const GgufForm& form);

// What tensors show and no key says, on top of what `from_config` has made of the keys.
Status take_gguf_tensors(const GgufFile& file, const GgufForm& form, DecoderSpec& spec);

}  // namespace quire
