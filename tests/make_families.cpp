// Makes the tiny checkpoints of tests/data/families of which only the list of tensors is committed,
// and the GGUF files of which only a recipe is.
//
//   make_families SOURCE TARGET STAMP
//
// For each SOURCE/NAME with a weights.json: TARGET/NAME/hf with NAME/hf/config.json, the tokenizer
// that all families share, and model.safetensors. For each with a gguf.json:
// TARGET/NAME/model.gguf. Touches STAMP at the end.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/json.h"
#include "support/counted_weights.h"
#include "support/gguf_recipe.h"
#include "weights/safetensors.h"

namespace quire::test {
namespace {

namespace fs = std::filesystem;

Status make_family(const fs::path& source, const fs::path& tokenizer, const fs::path& target) {
  QUIRE_ASSIGN_OR_RETURN(const json::value list, read_json_file(source / "weights.json", 1U << 24));
  if (!list.is_object()) return Status::bad_model("weights.json: expected an object");
  const JsonReader reader(list.get_object(), (source / "weights.json").string());
  QUIRE_ASSIGN_OR_RETURN(const CountedWeights weights, read_counted_weights(reader));
  fs::create_directories(target);
  constexpr auto kReplace = fs::copy_options::overwrite_existing;
  fs::copy_file(source / "hf" / "config.json", target / "config.json", kReplace);
  for (const auto& file : fs::directory_iterator(tokenizer)) {
    fs::copy_file(file.path(), target / file.path().filename(), kReplace);
  }
  return write_counted_safetensors(weights, target / "model.safetensors");
}

Status make_gguf(const fs::path& source, const fs::path& tokenizer, const fs::path& target) {
  constexpr std::uint64_t kMaxBytes = 1U << 24;
  QUIRE_ASSIGN_OR_RETURN(const json::value recipe, read_json_file(source / "gguf.json", kMaxBytes));
  QUIRE_ASSIGN_OR_RETURN(const json::value keys, read_json_file(tokenizer, kMaxBytes));
  const bool counted = fs::exists(source / "weights.json");
  QUIRE_ASSIGN_OR_RETURN(const auto weights, open_safetensors((counted ? target : source) / "hf"));
  fs::create_directories(target);
  return write_gguf(JsonReader(recipe.as_object(), (source / "gguf.json").string()),
                    JsonReader(keys.as_object(), tokenizer.string()), *weights,
                    target / "model.gguf");
}

Status make_families(const fs::path& source, const fs::path& target, const fs::path& stamp) {
  for (const auto& family : fs::directory_iterator(source)) {
    const fs::path made = target / family.path().filename();
    if (fs::exists(family.path() / "weights.json")) {
      QUIRE_RETURN_IF_ERROR(make_family(family.path(), source / "tokenizer", made / "hf"));
    }
    if (fs::exists(family.path() / "gguf.json")) {
      QUIRE_RETURN_IF_ERROR(make_gguf(family.path(), source / "tokenizer_gguf.json", made));
    }
  }
  std::ofstream out(stamp);
  out << "made\n";
  out.flush();
  return out ? Status() : Status::io_error("cannot write " + stamp.string());
}

}  // namespace
}  // namespace quire::test

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: make_families SOURCE TARGET STAMP\n", stderr);
    return 64;
  }
  try {
    const quire::Status status = quire::test::make_families(argv[1], argv[2], argv[3]);
    if (status.ok()) return 0;
    std::fprintf(stderr, "make_families: %s\n", status.to_string().c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "make_families: %s\n", error.what());
  }
  return 1;
}
