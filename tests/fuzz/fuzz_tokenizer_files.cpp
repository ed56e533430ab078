// Any bytes as the vocabularies that are no tokenizer.json: SentencePiece's model, tiktoken's list,
// tekken.json. What is read makes a tokenizer or one error, and a tokenizer encodes and decodes.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "load/byte_ranks.h"
#include "load/sentencepiece_model.h"
#include "text/tokenizer.h"

namespace {

void use(quire::Result<quire::VocabData> data) {
  if (!data.ok()) {
    if (data.status().message().empty()) std::abort();
    return;
  }
  const auto tokenizer = quire::Tokenizer::create(*std::move(data));
  if (!tokenizer.ok()) return;
  const auto ids = (*tokenizer)->encode("Hello  w\xC3\xB6rld 123\n");
  if (ids.ok()) (void)(*tokenizer)->decode(*ids);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  auto model = quire::read_sentencepiece_model(bytes, "tokenizer.model");
  if (model.ok()) use(quire::sentencepiece_vocab(*std::move(model), "tokenizer.model"));
  if (quire::is_tiktoken(bytes)) use(quire::read_tiktoken(bytes, "\\s+", "x.tiktoken"));
  if (bytes.starts_with('{')) {
    const auto value = quire::parse_json(bytes, "tekken.json");
    if (value.ok()) use(quire::read_tekken(*value, "tekken.json"));
  }
  return 0;
}
