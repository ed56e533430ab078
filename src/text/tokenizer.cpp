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

}  // namespace

// The encoding of one text: added tokens first, then the stretches between them.
class TextEncoder final : private WordSink {
 public:
  TextEncoder(const Tokenizer::Model& model, std::string_view text, const SpecialRanges& ranges,
              std::vector<TokenId>& out)
      : model_(&model), text_(text), ranges_(&ranges), out_(&out), words_(model, out) {}

  Status run() {
    split(model_->raw_matcher, text_, 0, text_.size(), *ranges_,
          [this](std::size_t begin, std::size_t end) { encode_stretch(begin, end); });
    return std::move(status_);
  }

 private:
  // Calls `stretch` with what lies between the added tokens of text[begin, end).
  template <typename Stretch>
  void split(const AddedTokenMatcher& matcher, std::string_view text, std::size_t begin,
             std::size_t end, const SpecialRanges& ranges, const Stretch& stretch) {
    text = text.substr(0, end);
    std::size_t taken = begin;
    std::size_t from = begin;
    while (const auto match = matcher.next(text, from, taken, ranges)) {
      if (taken < match->begin) stretch(taken, match->begin);
      out_->push_back(match->id);
      taken = match->end;
      from = match->next;
    }
    if (taken < end) stretch(taken, end);
  }

  void encode_stretch(std::size_t begin, std::size_t end) {
    if (!status_.ok()) return;
    if (model_->normalizer.empty()) {
      split(model_->normalized_matcher, text_, begin, end, *ranges_,
            [this](std::size_t b, std::size_t e) {
              encode_words(text_.substr(b, e - b), /*at_start=*/b == 0);
            });
      return;
    }
    auto normalized = model_->normalizer.normalize(text_.substr(begin, end - begin));
    if (!normalized.ok()) {
      status_ = normalized.status();
      return;
    }
    const std::string_view text = normalized->text;
    const SpecialRanges ranges =
        ranges_->cover(begin, end) ? SpecialRanges::everywhere(text) : SpecialRanges::nowhere();
    const bool at_start = begin == 0 && normalized->keeps_start;
    split(model_->normalized_matcher, text, 0, text.size(), ranges,
          [&](std::size_t b, std::size_t e) {
            encode_words(text.substr(b, e - b), at_start && b == 0);
          });
  }

  void encode_words(std::string_view text, bool at_start) {
    if (!status_.ok()) return;
    if (model_->words_end_at_space) {
      for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = space_word_end(text, begin);
        words_.encode(text.substr(begin, end - begin));
        begin = end;
      }
      return;
    }
    status_ = model_->pre_tokenizer.run(text, at_start, *this);
  }

  void word(std::string_view word) override { words_.encode(word); }

  const Tokenizer::Model* model_;
  std::string_view text_;
  const SpecialRanges* ranges_;
  std::vector<TokenId>* out_;
  WordEncoder words_;
  Status status_;
};

Tokenizer::Tokenizer(std::unique_ptr<const Model> model) : model_(std::move(model)) {}
Tokenizer::~Tokenizer() = default;

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  return encode(text,
                options.parse_special ? SpecialRanges::everywhere(text) : SpecialRanges::nowhere(),
                options.add_special_tokens);
}

Result<std::vector<TokenId>> Tokenizer::encode(std::span<const TextSegment> segments,
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

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, const SpecialRanges& ranges,
                                               bool add_special_tokens) const {
  const VocabData& data = model_->data;
  std::vector<TokenId> ids;
  if (add_special_tokens) ids = data.prefix_ids;
  const std::size_t prefix = ids.size();
  QUIRE_RETURN_IF_ERROR(TextEncoder(*model_, text, ranges, ids).run());
  const bool bos_twice = prefix != 0 && ids.size() > prefix && data.bos_id == ids[prefix - 1] &&
                         data.bos_id == ids[prefix];
  if (bos_twice) ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(prefix));
  if (add_special_tokens) ids.insert(ids.end(), data.suffix_ids.begin(), data.suffix_ids.end());
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

std::string_view Tokenizer::first_token_bytes(TokenId id) const {
  const auto first = model_->first_bytes.find(id);
  return first == model_->first_bytes.end() ? token_bytes(id) : first->second;
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
bool Tokenizer::adds_bos() const {
  const VocabData& data = model_->data;
  return data.bos_id && std::ranges::find(data.prefix_ids, *data.bos_id) != data.prefix_ids.end();
}
const TokenDecoder& Tokenizer::decoder() const { return model_->decoder; }

}  // namespace quire
