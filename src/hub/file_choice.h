// Which of a repository's files Quire needs: a model as it is published has others beside them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace quire {

struct FileChoice {
  std::vector<std::string> files;  // small ones first, weights last
  // The index that says which further files have weights; empty where `files` has them all.
  std::string index;
  // The file to open, of a GGUF model; empty: the folder is the model.
  std::string gguf;
};

// Chooses among `names`. Without `wanted` that is config, tokenizer and safetensors of a model in
// Hugging Face layout, else the only GGUF model there is. `wanted` names a GGUF file: by its whole
// name, or by its encoding, "Q4_K_M" in "model-Q4_K_M.gguf" or "Q4_K_M/model-00001-of-00002.gguf";
// all parts of a split file are chosen. `where` names the repository in errors. kNotFound where
// there is nothing that Quire reads, kInvalidArgument where several fit (the message lists them).
Result<FileChoice> choose_files(const std::vector<std::string>& names, std::string_view wanted,
                                std::string_view where);

// The files that an index of safetensors names, each once and each one of `names`. kBadModel.
Result<std::vector<std::string>> shards_of_index(std::string_view json,
                                                 const std::vector<std::string>& names,
                                                 std::string_view where);

}  // namespace quire
