#include "load/byte_ranks.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "text/byte_alphabet.h"

namespace quire {
namespace {

// Scores are float, which has every rank up to there.
constexpr std::size_t kMaxRanks = 1U << 24;

// The control tokens of tekken files that list none.
constexpr std::array<std::string_view, 20> kTekkenTokens = {"<unk>",
                                                            "<s>",
                                                            "</s>",
                                                            "[INST]",
                                                            "[/INST]",
                                                            "[AVAILABLE_TOOLS]",
                                                            "[/AVAILABLE_TOOLS]",
                                                            "[TOOL_RESULTS]",
                                                            "[/TOOL_RESULTS]",
                                                            "[TOOL_CALLS]",
                                                            "[IMG]",
                                                            "<pad>",
                                                            "[IMG_BREAK]",
                                                            "[IMG_END]",
                                                            "[PREFIX]",
                                                            "[MIDDLE]",
                                                            "[SUFFIX]",
                                                            "[SYSTEM_PROMPT]",
                                                            "[/SYSTEM_PROMPT]",
                                                            "[TOOL_CONTENT]"};

std::optional<unsigned> base64_value(char c) {
  if (c >= 'A' && c <= 'Z') return static_cast<unsigned>(c - 'A');
  if (c >= 'a' && c <= 'z') return static_cast<unsigned>(c - 'a' + 26);
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0' + 52);
  if (c == '+') return 62U;
  if (c == '/') return 63U;
  return std::nullopt;
}

// Base64 (RFC 4648) with its padding, as a token in GPT-2's alphabet; nullopt for what is none.
std::optional<std::string> token_of_base64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  while (text.ends_with('=')) text.remove_suffix(1);
  if (text.size() % 4 == 1) return std::nullopt;
  std::string token;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const auto value = base64_value(c);
    if (!value) return std::nullopt;
    bits = (bits << 6 | *value) & 0xFFFFFF;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    token += byte_to_symbol(static_cast<std::uint8_t>(bits >> count));
  }
  return token;
}

Status bad_ranks(std::string_view where, std::string what) {
  return Status::bad_model(fmt::format("{}: {}", where, what), "fetch the file again");
}

// Everything but the vocabulary.
void set_steps(std::string_view regex, VocabData& data) {
  data.style = BpeStyle::kByteLevel;
  data.ignore_merges = true;
  data.pre_tokenizers.push_back({.pattern = {std::string(regex), /*is_regex=*/true}});
  data.decoders.push_back({.kind = DecoderStep::Kind::kByteLevel});
}

// Puts a token at its id, with the score that merges it in the order of ranks.
Status set_ranked(std::string token, std::size_t id, std::size_t rank, std::string_view where,
                  VocabData& data) {
  if (rank >= kMaxRanks) return bad_ranks(where, fmt::format("more than {} tokens", kMaxRanks));
  if (id >= data.tokens.size()) {
    data.tokens.resize(id + 1);
    data.kinds.resize(id + 1, TokenKind::kUnused);
    data.scores.resize(id + 1, 0);
  }
  if (!data.tokens[id].empty())
    return bad_ranks(where, fmt::format("two tokens have the id {}", id));
  data.tokens[id] = std::move(token);
  data.kinds[id] = TokenKind::kNormal;
  data.scores[id] = -static_cast<float>(rank);
  return {};
}

struct RankedLine {
  std::string token;
  std::size_t rank = 0;
};

std::optional<RankedLine> parse_line(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == line.npos) return std::nullopt;
  auto token = token_of_base64(line.substr(0, space));
  const std::string_view digits = line.substr(space + 1);
  RankedLine parsed;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), parsed.rank);
  if (!token || error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  parsed.token = *std::move(token);
  return parsed;
}

std::string_view next_line(std::string_view& rest) {
  const std::size_t end = std::min(rest.find('\n'), rest.size());
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace

bool is_tiktoken(std::string_view file) {
  constexpr std::size_t kLongestLine = 4096;
  std::string_view rest = file.substr(0, kLongestLine);
  return parse_line(next_line(rest)).has_value();
}

Result<VocabData> read_tiktoken(std::string_view file, std::string_view regex,
                                std::string_view where) {
  VocabData data;
  set_steps(regex, data);
  std::size_t number = 0;
  std::size_t tokens = 0;
  for (std::string_view rest = file; !rest.empty();) {
    const std::string_view line = next_line(rest);
    ++number;
    if (line.empty()) continue;
    auto parsed = parse_line(line);
    // Ids may be out of order, but not beyond what the file can have.
    if (!parsed || parsed->rank > file.size() / 4) {
      return bad_ranks(
          where, fmt::format("line {} is no token and its rank: {}", number, printable(line, 60)));
    }
    QUIRE_RETURN_IF_ERROR(
        set_ranked(std::move(parsed->token), parsed->rank, parsed->rank, where, data));
    ++tokens;
  }
  if (tokens == 0) return bad_ranks(where, "it has no tokens");
  if (tokens != data.tokens.size()) {
    return bad_ranks(where, fmt::format("{} tokens have ids below {}", tokens, data.tokens.size()));
  }
  return data;
}

Result<VocabData> read_tekken(const json::value& file, std::string_view where) {
  if (!file.is_object()) return bad_ranks(where, "expected an object");
  const JsonReader root(file.get_object(), std::string(where));
  QUIRE_ASSIGN_OR_RETURN(const JsonReader config, root.get_object("config"));
  QUIRE_ASSIGN_OR_RETURN(const std::string pattern, config.get_string("pattern"));
  QUIRE_ASSIGN_OR_RETURN(const std::int64_t size, config.get_int("default_vocab_size"));
  QUIRE_ASSIGN_OR_RETURN(const std::int64_t specials, config.get_int("default_num_special_tokens"));
  if (size <= 0 || std::cmp_greater(size, kMaxRanks) || specials < 0 || specials >= size) {
    return bad_ranks(where,
                     fmt::format("{} tokens, {} of them special, cannot be", size, specials));
  }
  VocabData data;
  set_steps(pattern, data);
  const json::value* vocab = root.find("vocab");
  if (vocab == nullptr || !vocab->is_array()) return root.type_error("vocab", "a list");
  const auto ordinary = static_cast<std::size_t>(size - specials);
  if (vocab->get_array().size() < ordinary) {
    return bad_ranks(where, fmt::format("{} of {} tokens", vocab->get_array().size(), ordinary));
  }
  for (std::size_t rank = 0; rank < ordinary; ++rank) {
    const json::value& each = vocab->get_array()[rank];
    if (!each.is_object()) return root.type_error("vocab", "a list of objects");
    const JsonReader entry(each.get_object(), fmt::format("{}: vocab: {}", where, rank));
    QUIRE_ASSIGN_OR_RETURN(const std::int64_t said, entry.get_int("rank"));
    QUIRE_ASSIGN_OR_RETURN(const std::string bytes, entry.get_string("token_bytes"));
    auto token = token_of_base64(bytes);
    if (!token || std::cmp_not_equal(said, rank)) {
      return bad_ranks(where, fmt::format("token {} has another rank, or no bytes", rank));
    }
    QUIRE_RETURN_IF_ERROR(set_ranked(*std::move(token), rank + static_cast<std::size_t>(specials),
                                     rank, where, data));
  }
  std::vector<std::string> names(kTekkenTokens.begin(), kTekkenTokens.end());
  if (const json::value* listed = root.find("special_tokens"); listed != nullptr) {
    if (!listed->is_array()) return root.type_error("special_tokens", "a list");
    names.clear();
    for (const json::value& each : listed->get_array()) {
      if (!each.is_object()) return root.type_error("special_tokens", "a list of objects");
      const JsonReader entry(each.get_object(), fmt::format("{}: special_tokens", where));
      QUIRE_ASSIGN_OR_RETURN(const std::int64_t rank, entry.get_int("rank"));
      QUIRE_ASSIGN_OR_RETURN(std::string name, entry.get_string("token_str"));
      if (std::cmp_not_equal(rank, names.size()) || name.empty()) {
        return bad_ranks(where, fmt::format("special token {} has another rank, or no text", rank));
      }
      names.push_back(std::move(name));
    }
  }
  if (names.size() > static_cast<std::size_t>(specials)) {
    return bad_ranks(where,
                     fmt::format("{} special tokens in the place of {}", names.size(), specials));
  }
  for (std::size_t id = 0; id < static_cast<std::size_t>(specials); ++id) {
    std::string name = id < names.size() ? names[id] : fmt::format("<SPECIAL_{}>", id);
    data.tokens[id] = name;
    data.kinds[id] = TokenKind::kControl;
    data.added_tokens.push_back(
        {.content = std::move(name), .id = static_cast<TokenId>(id), .special = true});
  }
  const auto id_of = [&](std::string_view name) -> std::optional<TokenId> {
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) return std::nullopt;
    return static_cast<TokenId>(found - names.begin());
  };
  data.bos_id = id_of("<s>");
  if (const auto eos = id_of("</s>")) data.eos_ids = {*eos};
  if (data.bos_id) data.prefix_ids = {*data.bos_id};
  return data;
}

}  // namespace quire
