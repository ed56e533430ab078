#include "text/token_decoder.h"

#include <utility>

#include <fmt/format.h>

#include "text/byte_alphabet.h"
#include "text/normalizer.h"

namespace quire {

namespace {

std::string_view name_of(DecoderStep::Kind kind) {
  switch (kind) {
    case DecoderStep::Kind::kByteLevel:
      return "ByteLevel";
    case DecoderStep::Kind::kMetaspace:
      return "Metaspace";
    case DecoderStep::Kind::kReplace:
      return "Replace";
    case DecoderStep::Kind::kByteFallback:
      return "ByteFallback";
    case DecoderStep::Kind::kFuse:
      return "Fuse";
    case DecoderStep::Kind::kWordPiece:
      return "WordPiece";
    case DecoderStep::Kind::kStrip:
      return "Strip";
  }
  return "";
}

std::string without_metaspaces(const DecoderStep& step, std::string_view token, bool is_first) {
  std::string text;
  for (std::size_t at = 0; at < token.size();) {
    if (token.substr(at).starts_with(step.content)) {
      if (!(is_first && step.prefixed)) text += ' ';
      at += step.content.size();
    } else {
      text += token[at++];
    }
  }
  return text;
}

// As the tokenizers library cleans a token up, in its order.
std::string as_word_piece(const DecoderStep& step, std::string_view token, bool is_first) {
  constexpr std::pair<std::string_view, std::string_view> kCleanup[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  std::string text(token);
  if (!is_first) {
    text = token.starts_with(step.content) ? std::string(token.substr(step.content.size()))
                                           : " " + std::string(token);
  }
  if (!step.cleanup) return text;
  for (const auto& [from, to] : kCleanup) replace_all(text, from, to);
  return text;
}

std::string strip_ends(const DecoderStep& step, std::string_view token) {
  for (std::uint32_t i = 0; i < step.start && token.starts_with(step.content); ++i) {
    token.remove_prefix(step.content.size());
  }
  for (std::uint32_t i = 0; i < step.stop && token.ends_with(step.content); ++i) {
    token.remove_suffix(step.content.size());
  }
  return std::string(token);
}

}  // namespace

Result<TokenDecoder> TokenDecoder::create(std::vector<DecoderStep> steps) {
  enum class Phase : std::uint8_t { kTokens, kBytes, kText } phase = Phase::kTokens;
  TokenDecoder decoder;
  for (DecoderStep& step : steps) {
    const bool needs_content =
        step.kind == DecoderStep::Kind::kMetaspace || step.kind == DecoderStep::Kind::kStrip;
    if (needs_content && step.content.empty()) {
      return Status::bad_model(
          fmt::format("tokenizer: decoder: {} has no character", name_of(step.kind)));
    }
    if (step.kind == DecoderStep::Kind::kFuse) {
      phase = Phase::kText;
      continue;
    }
    if (step.kind == DecoderStep::Kind::kStrip && phase == Phase::kText && step.stop == 0 &&
        decoder.strip_count_ == 0) {
      decoder.strip_count_ = step.start;
      decoder.strip_content_ = step.content;
      continue;
    }
    if (phase != Phase::kTokens) {
      return Status::unimplemented(
          fmt::format("tokenizer: decoder: {}{} after {} is not supported", name_of(step.kind),
                      step.kind == DecoderStep::Kind::kStrip ? " of the end" : "",
                      phase == Phase::kText ? "the tokens are joined" : "ByteFallback"));
    }
    Step compiled;
    if (step.kind == DecoderStep::Kind::kReplace) {
      QUIRE_ASSIGN_OR_RETURN(compiled.pattern, Pattern::create(step.pattern));
    } else if (step.kind == DecoderStep::Kind::kMetaspace) {
      decoder.first_token_differs_ |= step.prefixed;
    } else if (step.kind == DecoderStep::Kind::kWordPiece) {
      decoder.first_token_differs_ = true;
    } else if (step.kind == DecoderStep::Kind::kByteLevel) {
      phase = Phase::kText;
    } else if (step.kind == DecoderStep::Kind::kByteFallback) {
      phase = Phase::kBytes;
      decoder.byte_fallback_ = true;
    }
    compiled.data = std::move(step);
    decoder.steps_.push_back(std::move(compiled));
  }
  return decoder;
}

Result<std::string> TokenDecoder::decode(std::string_view token, bool is_first) const {
  std::string text(token);
  for (const Step& step : steps_) {
    switch (step.data.kind) {
      case DecoderStep::Kind::kByteLevel:
        if (auto bytes = symbols_to_bytes(text)) text = std::move(*bytes);
        break;
      case DecoderStep::Kind::kMetaspace:
        text = without_metaspaces(step.data, text, is_first);
        break;
      case DecoderStep::Kind::kReplace: {
        QUIRE_ASSIGN_OR_RETURN(text, replace_matches(*step.pattern, text, step.data.content));
        break;
      }
      case DecoderStep::Kind::kByteFallback:
        if (const auto byte = parse_byte_token(text)) {
          text = std::string(1, static_cast<char>(*byte));
        }
        break;
      case DecoderStep::Kind::kStrip:
        text = strip_ends(step.data, text);
        break;
      case DecoderStep::Kind::kWordPiece:
        text = as_word_piece(step.data, text, is_first);
        break;
      case DecoderStep::Kind::kFuse:
        break;
    }
  }
  return text;
}

}  // namespace quire
