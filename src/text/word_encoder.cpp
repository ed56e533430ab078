#include "text/byte_alphabet.h"
#include "text/tokenizer_model.h"
#include "text/utf8.h"

namespace quire {

// Text that no token spells: byte tokens if the vocabulary has them all, else the unknown token,
// else nothing.
void WordEncoder::append_unknown(std::string_view symbol, std::vector<TokenId>& ids) const {
  const VocabData& data = model_->data;
  if (data.byte_fallback) {
    const std::size_t before = ids.size();
    for (const char byte : symbol) {
      const TokenId id = model_->byte_ids[static_cast<unsigned char>(byte)];
      if (id >= 0) ids.push_back(id);
    }
    if (ids.size() == before + symbol.size()) return;
    ids.resize(before);
  }
  if (!data.unk_id) return;
  if (data.fuse_unk && !ids.empty() && ids.back() == *data.unk_id) return;
  ids.push_back(*data.unk_id);
}

bool WordEncoder::encode_by_merges(std::string_view word, const std::function<bool()>& cancelled) {
  symbols_.clear();
  if (model_->data.style == BpeStyle::kByteLevel) {
    for (const char byte : word) {
      const auto value = static_cast<unsigned char>(byte);
      const TokenId id = model_->byte_ids[value];
      if (id >= 0) {
        symbols_.push_back(id);
      } else {
        append_unknown(byte_to_symbol(value), symbols_);
      }
    }
  } else {
    for (std::size_t i = 0; i < word.size();) {
      const std::size_t size = symbol_size(word, i);
      const std::string_view symbol = word.substr(i, size);
      const auto id = model_->char_ids.find(symbol);
      if (id != model_->char_ids.end()) {
        symbols_.push_back(id->second);
      } else {
        append_unknown(symbol, symbols_);
      }
      i += size;
    }
  }
  if (!merger_.merge(symbols_, cancelled)) return false;

  const auto vocab_size = static_cast<TokenId>(model_->size());
  for (const TokenId id : symbols_) {
    if (id < vocab_size) {
      out_->push_back(id);
    } else {
      append_unknown(model_->symbol_texts[static_cast<std::size_t>(id - vocab_size)], *out_);
    }
  }
  return true;
}

bool WordEncoder::encode(std::string_view word, const std::function<bool()>& cancelled) {
  const std::uint64_t hash = hash_word(word);
  if (word.size() <= model_->longest_whole_word) {
    if (const auto id = model_->whole_words.find(word, hash)) {
      out_->push_back(*id);
      return true;
    }
  }
  const auto cached = cache_.find(word, hash);
  if (!cached.empty()) {
    out_->insert(out_->end(), cached.begin(), cached.end());
    return true;
  }
  const std::size_t before = out_->size();
  if (!encode_by_merges(word, cancelled)) return false;
  // An unknown token may have joined the one before the word: then the word's ids are not its own.
  if (!model_->data.fuse_unk) cache_.insert(word, hash, std::span(*out_).subspan(before));
  return true;
}

}  // namespace quire
