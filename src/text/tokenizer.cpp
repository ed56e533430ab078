#include "text/tokenizer.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "text/detokenizer.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer_model.h"

namespace quire {

namespace {

Status too_many_tokens(const EncodeLimits& limits) {
  return Status::invalid_argument(
      fmt::format("{} has more than {} tokens", limits.what, limits.max_tokens), limits.remedy);
}

Status cancelled() { return {StatusCode::kCancelled, "the text's tokens are not wanted any more"}; }

}  // namespace

// The encoding of one text: added tokens first, then the stretches between them.
class TextEncoder final : private WordSink {
 public:
  TextEncoder(const Tokenizer::Model& model, std::string_view text, const SpecialRanges& ranges,
              const EncodeLimits& limits, std::vector<TokenId>& out)
      : model_(&model),
        text_(text),
        ranges_(&ranges),
        limits_(&limits),
        out_(&out),
        words_(model, out) {}

  Status run() {
    if (model_->keeps_all_text && !fits(text_.size())) return too_many_tokens(*limits_);
    out_->reserve(out_->size() + std::min(limits_->max_tokens, text_.size() / kBytesOfAToken));
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
      if (!goes_on()) return;
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
    if (model_->cuts_by_merges) {
      if (model_->prepends_space) {
        encode_merged_words(std::string(1, ' ').append(text));
      } else {
        encode_merged_words(text);
      }
      return;
    }
    Status status = model_->pre_tokenizer.run(text, at_start, *this);
    if (status_.ok()) status_ = std::move(status);
  }

  void encode_merged_words(std::string_view text) {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = model_->merged_words.end(text, begin);
      if (!word(text.substr(begin, end - begin))) return;
      begin = end;
    }
  }

  bool word(std::string_view word) override {
    if (!goes_on()) return false;
    const std::size_t most = std::min<std::size_t>(limits_->max_word_bytes, UINT32_MAX - 1);
    if (word.size() > most) {
      status_ = Status::invalid_argument(
          fmt::format("{} has a word of {} bytes, more than {}", limits_->what, word.size(), most),
          limits_->remedy);
    } else if (!fits(word.size())) {
      status_ = too_many_tokens(*limits_);
    } else if (!words_.encode(word, limits_->cancelled)) {
      status_ = cancelled();
    }
    return status_.ok();
  }

  // Whether the tokens so far, and the time that it took, leave room for more.
  bool goes_on() {
    if (!status_.ok()) return false;
    if (out_->size() > limits_->max_tokens) {
      status_ = too_many_tokens(*limits_);
    } else if (++steps_ % kStepsBetweenLooks == 0 && limits_->cancelled && limits_->cancelled()) {
      status_ = cancelled();
    }
    return status_.ok();
  }

  // Whether so many more bytes may become tokens that the limit has room for.
  bool fits(std::size_t bytes) const {
    if (model_->most_bytes_per_token == 0) return true;
    const std::size_t room = limits_->max_tokens - std::min(limits_->max_tokens, out_->size());
    if (bytes <= room) return true;
    return bytes / model_->most_bytes_per_token <= room;
  }

  static constexpr std::size_t kStepsBetweenLooks = 4096;
  static constexpr std::size_t kBytesOfAToken = 2;  // or more, of most texts

  const Tokenizer::Model* model_;
  std::string_view text_;
  const SpecialRanges* ranges_;
  const EncodeLimits* limits_;
  std::vector<TokenId>* out_;
  WordEncoder words_;
  Status status_;
  std::size_t steps_ = 0;  // words and added tokens
};

Tokenizer::Tokenizer(std::unique_ptr<const Model> model) : model_(std::move(model)) {}
Tokenizer::~Tokenizer() = default;

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, EncodeOptions options,
                                               const EncodeLimits& limits) const {
  return encode(text,
                options.parse_special ? SpecialRanges::everywhere(text) : SpecialRanges::nowhere(),
                options.add_special_tokens, limits);
}

Result<std::vector<TokenId>> Tokenizer::encode(std::span<const TextSegment> segments,
                                               bool add_special_tokens,
                                               const EncodeLimits& limits) const {
  std::string text;
  SpecialRanges ranges;
  for (const TextSegment& segment : segments) {
    const std::size_t begin = text.size();
    text += segment.text;
    if (segment.is_template) ranges.add(begin, text.size());
  }
  return encode(text, ranges, add_special_tokens, limits);
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, const SpecialRanges& ranges,
                                               bool add_special_tokens,
                                               const EncodeLimits& limits) const {
  const VocabData& data = model_->data;
  std::vector<TokenId> ids;
  if (add_special_tokens) ids = data.prefix_ids;
  const std::size_t prefix = ids.size();
  QUIRE_RETURN_IF_ERROR(TextEncoder(*model_, text, ranges, limits, ids).run());
  const bool bos_twice = prefix != 0 && ids.size() > prefix && data.bos_id == ids[prefix - 1] &&
                         data.bos_id == ids[prefix];
  if (bos_twice) ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(prefix));
  if (add_special_tokens) ids.insert(ids.end(), data.suffix_ids.begin(), data.suffix_ids.end());
  if (ids.size() > limits.max_tokens) return too_many_tokens(limits);
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
