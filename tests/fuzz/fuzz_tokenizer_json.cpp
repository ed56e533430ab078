// Any bytes: as tokenizer.json they give a tokenizer whose ids lie in its vocabulary and whose
// stream of pieces is its decoded text, or an error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/json.h"
#include "load/tokenizer_json.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using quire::TokenId;
  if (size > 65536) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto json = quire::parse_json(bytes, "fuzz.json");
  if (!json.ok()) return 0;
  auto vocab = quire::read_tokenizer_json(*json, nullptr, nullptr, nullptr, "fuzz.json");
  if (!vocab.ok()) {
    if (vocab.status().message().empty()) std::abort();
    return 0;
  }
  const auto tokenizer = quire::Tokenizer::create(std::move(*vocab));
  if (!tokenizer.ok()) {
    if (tokenizer.status().message().empty()) std::abort();
    return 0;
  }
  for (const std::string_view text :
       {std::string_view("Hello  world's 1234\n\n"), std::string_view("a\xC3\xA9\xFF \xE4\xB8"),
        bytes.substr(0, 256)}) {
    const auto ids = (*tokenizer)->encode(text, {.parse_special = true});
    if (!ids.ok()) continue;
    quire::Detokenizer detokenizer(**tokenizer);
    std::string pieces;
    for (const TokenId id : *ids) {
      if (!(*tokenizer)->contains(id)) std::abort();
      pieces += detokenizer.add(id);
    }
    pieces += detokenizer.flush();
    if (pieces != (*tokenizer)->decode(*ids)) std::abort();
  }
  return 0;
}
