#include <algorithm>
#include <optional>
#include <string>

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
      const TokenId id = model_->symbol_of(symbol);
      if (id >= 0) {
        symbols_.push_back(id);
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

// Kudo 2018. Pieces that nothing spells become bytes together, or one unknown
// token.
bool WordEncoder::encode_by_pieces(std::string_view word, const std::function<bool()>& cancelled) {
  if (!cutter_.cut(word, model_->unknown_score, cut_, cancelled)) return false;
  for (const UnigramCutter::Piece& piece : cut_) {
    if (piece.id >= 0) {
      out_->push_back(piece.id);
    } else {
      append_unknown(word.substr(piece.begin, piece.end - piece.begin), *out_);
    }
  }
  return true;
}

// WordPiece: Wu et al., "Google's Neural Machine Translation System" (2016). A
// word of which any part is no token is unknown as a whole.
void WordEncoder::encode_by_longest(std::string_view word) {
  const VocabData& data = model_->data;
  std::size_t characters = 0;
  for (std::size_t at = 0; at < word.size(); at += symbol_size(word, at)) ++characters;
  symbols_.clear();
  std::string token;
  for (std::size_t begin = 0; begin < word.size() && characters <= data.max_word_characters;) {
    std::size_t end = std::min(word.size(), begin + model_->longest_token);
    std::optional<TokenId> found;
    for (; end > begin && !found; --end) {
      token = begin == 0 ? "" : data.subword_prefix;
      token += word.substr(begin, end - begin);
      const auto id = model_->by_text.find(token);
      if (id != model_->by_text.end() && model_->is_ordinary(id->second)) found = id->second;
    }
    if (!found) break;
    symbols_.push_back(*found);
    begin = end + 1;
    if (begin == word.size()) {
      out_->insert(out_->end(), symbols_.begin(), symbols_.end());
      return;
    }
  }
  if (data.unk_id) out_->push_back(*data.unk_id);
}

bool WordEncoder::encode_by_model(std::string_view word, const std::function<bool()>& cancelled) {
  switch (model_->data.model) {
    case WordModel::kBpe:
      return encode_by_merges(word, cancelled);
    case WordModel::kUnigram:
      return encode_by_pieces(word, cancelled);
    case WordModel::kWordPiece:
      encode_by_longest(word);
      return true;
    case WordModel::kWordLevel:
      break;
  }
  const auto id = model_->by_text.find(word);
  if (id != model_->by_text.end() && model_->is_ordinary(id->second)) {
    out_->push_back(id->second);
  } else if (model_->data.unk_id) {
    out_->push_back(*model_->data.unk_id);
  }
  return true;
}

bool WordEncoder::encode(std::string_view word, const std::function<bool()>& cancelled) {
  if (word.size() > ShortWordCache::kMaxBytes || word.empty()) return encode_any(word, cancelled);
  const ShortWordCache::Key key(word);
  if (const auto cached = short_words_.find(key); !cached.empty()) {
    for (const TokenId id : cached) out_->push_back(id);
    return true;
  }
  const std::size_t before = out_->size();
  if (!encode_any(word, cancelled)) return false;
  if (!model_->fuses_unknown) short_words_.insert(key, std::span(*out_).subspan(before));
  return true;
}

bool WordEncoder::encode_any(std::string_view word, const std::function<bool()>& cancelled) {
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
  if (!encode_by_model(word, cancelled)) return false;
  // An unknown token may have joined the one before the word: then the word's ids are not its own.
  if (!model_->fuses_unknown) cache_.insert(word, hash, std::span(*out_).subspan(before));
  return true;
}

}  // namespace quire
