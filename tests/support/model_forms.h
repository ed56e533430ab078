// Checkpoints brought into forms that no committed file has. Errors are Status::bad_model.
#pragma once

#include <filesystem>

#include "base/status.h"

namespace quire::test {

// The GGUF file as two parts in `folder`, as gguf-split writes them with --no-tensor-first-split:
// the model's keys, and all of its tensors.
Status write_gguf_parts(const std::filesystem::path& gguf, const std::filesystem::path& folder);

// tests/data/families/mistral/hf, which `checkpoint` must be, as Mistral AI would write it,
// tokenizer included. The rows of queries and keys stay in their order: it opens, but computes
// something else.
Status write_mistral_form(const std::filesystem::path& checkpoint,
                          const std::filesystem::path& folder);

}  // namespace quire::test
