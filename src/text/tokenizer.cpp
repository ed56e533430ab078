#include "text/tokenizer.h"

#include <algorithm>

#include "text/detokenizer.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer_model.h"

namespace quire {

namespace {

// The end of the word at `begin` where words are taken to start at the first U+2581 of a run.
std::size_t space_word_end(std::string_view text, std::size_t begin) {
  std::size_t at = begin;
  while (text.substr(at).starts_with(kSpaceSymbol)) at += kSpaceSymbol.size();
  return std::min(text.size(), text.find(kSpaceSymbol, at));
}

// One stretch of text without added tokens, as a SentencePiece-style vocabulary spells it.
std::string normalize(const VocabData& data, std::string_view text, bool at_text_start) {
  const std::string_view space = data.escape_spaces ? kSpaceSymbol : std::string_view(" ");
  std::string normalized;
  normalized.reserve(text.size() + text.size() / 2 + space.size());
  const bool has_prefix = data.space_prefix == SpacePrefix::kAlways ||
                          (data.space_prefix == SpacePrefix::kFirst && at_text_start);
  const bool has_space = text.starts_with(kSpaceSymbol) || text.starts_with(' ');
  if (has_prefix && !(data.prefix_unless_present && has_space)) normalized += space;
  for (const char c : text) {
    if (c == ' ') {
      normalized += space;
    } else {
      normalized += c;
    }
  }
  return normalized;
}

}  // namespace

// The encoding of one text: added tokens first, then the stretches between them.
class TextEncoder {
 public:
  TextEncoder(const Tokenizer::Model& model, std::string_view text, const SpecialRanges& ranges,
              std::vector<TokenId>& out)
      : model_(&model), text_(text), ranges_(&ranges), out_(&out), words_(model, out) {}

  void run() {
    split(model_->raw_matcher, 0, text_.size(), [this](std::size_t begin, std::size_t end) {
      split(model_->normalized_matcher, begin, end,
            [this](std::size_t b, std::size_t e) { encode_stretch(b, e); });
    });
  }

 private:
  template <typename Stretch>
  void split(const AddedTokenMatcher& matcher, std::size_t begin, std::size_t end,
             const Stretch& stretch) {
    const std::string_view text = text_.substr(0, end);
    while (begin < end) {
      const auto match = matcher.next(text, begin, *ranges_);
      const std::size_t stretch_end = match ? match->begin : end;
      if (begin < stretch_end) stretch(begin, stretch_end);
      if (!match) return;
      out_->push_back(match->id);
      begin = match->end;
    }
  }

  void encode_stretch(std::size_t begin, std::size_t end) {
    const VocabData& data = model_->data;
    const std::string_view raw = text_.substr(begin, end - begin);
    if (data.style == BpeStyle::kByteLevel) {
      encode_words(raw);
    } else {
      encode_words(normalize(data, raw, begin == 0));
    }
  }

  void encode_words(std::string_view text) {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = model_->words_end_at_space
                                  ? space_word_end(text, begin)
                                  : word_end(model_->data.pre_tokenizer, text, begin);
      words_.encode(text.substr(begin, end - begin));
      begin = end;
    }
  }

  const Tokenizer::Model* model_;
  std::string_view text_;
  const SpecialRanges* ranges_;
  std::vector<TokenId>* out_;
  WordEncoder words_;
};

Tokenizer::Tokenizer(std::unique_ptr<const Model> model) : model_(std::move(model)) {}
Tokenizer::~Tokenizer() = default;

std::vector<TokenId> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  return encode(text,
                options.parse_special ? SpecialRanges::everywhere(text) : SpecialRanges::nowhere(),
                options.add_special_tokens);
}

std::vector<TokenId> Tokenizer::encode(std::span<const TextSegment> segments,
                                       bool add_special_tokens) const {
  std::string text;
  SpecialRanges ranges;
  for (const TextSegment& segment : segments) {
    const std::size_t begin = text.size();
    text += segment.text;
    if (segment.is_template) ranges.add(begin, text.size());
  }
  return encode(text, ranges, add_special_tokens);
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, const SpecialRanges& ranges,
                                       bool add_special_tokens) const {
  const VocabData& data = model_->data;
  const bool with_bos = add_special_tokens && data.add_bos;
  std::vector<TokenId> ids;
  if (with_bos) ids.push_back(*data.bos_id);
  TextEncoder(*model_, text, ranges, ids).run();
  if (with_bos && ids.size() > 1 && ids[1] == *data.bos_id) ids.erase(ids.begin());
  if (add_special_tokens && data.add_eos) ids.push_back(data.eos_ids.front());
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special_tokens) const {
  Detokenizer detokenizer(*this, skip_special_tokens);
  std::string text;
  for (const TokenId id : ids) text += detokenizer.add(id);
  text += detokenizer.flush();
  return text;
}

bool Tokenizer::contains(TokenId id) const {
  return id >= 0 && static_cast<std::size_t>(id) < model_->size();
}

std::string_view Tokenizer::token_bytes(TokenId id) const {
  return contains(id) ? std::string_view(model_->bytes[static_cast<std::size_t>(id)])
                      : std::string_view();
}

std::string_view Tokenizer::token_text(TokenId id) const {
  return contains(id) ? std::string_view(model_->data.tokens[static_cast<std::size_t>(id)])
                      : std::string_view();
}

std::optional<TokenId> Tokenizer::find(std::string_view token_text) const {
  const auto found = model_->by_text.find(token_text);
  if (found == model_->by_text.end()) return std::nullopt;
  return found->second;
}

bool Tokenizer::is_special(TokenId id) const {
  return contains(id) && model_->special[static_cast<std::size_t>(id)];
}

bool Tokenizer::is_eos(TokenId id) const {
  return std::ranges::find(model_->data.eos_ids, id) != model_->data.eos_ids.end();
}

std::size_t Tokenizer::vocab_size() const { return model_->size(); }
std::optional<TokenId> Tokenizer::bos_id() const { return model_->data.bos_id; }
std::span<const TokenId> Tokenizer::eos_ids() const { return model_->data.eos_ids; }
bool Tokenizer::adds_bos() const { return model_->data.add_bos; }
BpeStyle Tokenizer::style() const { return model_->data.style; }
LeadingSpace Tokenizer::leading_space() const { return model_->data.leading_space; }

}  // namespace quire
