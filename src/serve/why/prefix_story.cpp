#include "serve/why/prefix_story.h"

#include <fmt/format.h>

#include "base/printable.h"

namespace quire {
namespace {

std::string in_quotes(std::string_view text) { return fmt::format("\"{}\"", printable(text)); }

// "token 12", and its text where that may be told.
std::string place(const PrefixMiss& miss, const PrefixNames& names) {
  std::string text = fmt::format("token {}", miss.num_found);
  if (names.text && miss.token) text += fmt::format(" ({})", in_quotes(names.text(*miss.token)));
  return text;
}

std::string age(const PrefixMiss& miss) {
  return miss.age ? fmt::format(" {:.3f} s before it started", to_seconds(*miss.age)) : "";
}

std::string scope(const PrefixNames& names) { return names.salted ? " with its cache_salt" : ""; }

std::string because_of(const PrefixMiss& miss, const PrefixNames& names) {
  switch (miss.cause) {
    case PrefixMissCause::kNone:
      return "all but what is always computed was found";
    case PrefixMissCause::kOff:
      return "there is no prefix cache here (--no-enable-prefix-caching)";
    case PrefixMissCause::kTooShort:
      return "the prompt is one token, and the last one is always computed";
    case PrefixMissCause::kWanted:
      return "log probabilities or hidden states of the prompt were wanted, which nobody keeps";
    case PrefixMissCause::kNew:
      return fmt::format("nothing that is cached{} begins with {}", scope(names),
                         place(miss, names));
    case PrefixMissCause::kEnds:
      return fmt::format("the closest cached prefix{} ends before {}", scope(names),
                         place(miss, names));
    case PrefixMissCause::kDiffers: {
      const std::string other = names.text && names.tell_cached && miss.cached_token
                                    ? in_quotes(names.text(*miss.cached_token))
                                    : "another token";
      return fmt::format("the closest cached prefix{} has {} in place of {}", scope(names), other,
                         place(miss, names));
    }
    case PrefixMissCause::kEvicted:
      return fmt::format("the block of {} was evicted{}{}", place(miss, names),
                         miss.by ? " for " + names.others(*miss.by) : "", age(miss));
    case PrefixMissCause::kReset:
      return fmt::format("the block of {} was cached until the cache was emptied",
                         place(miss, names));
    case PrefixMissCause::kNoRoom:
      return fmt::format("there was no free block to copy the part that holds {}",
                         place(miss, names));
    case PrefixMissCause::kInFlight:
      return fmt::format("{} was computing {} when it started", names.others(*miss.by),
                         place(miss, names));
  }
  return "";
}

}  // namespace

json::object prefix_json(const PrefixMiss& miss, const PrefixNames& names) {
  json::object out = {{"found_tokens", miss.num_found}, {"miss", prefix_miss_name(miss.cause)}};
  if (miss.num_pinned > 0) out["pinned_tokens"] = miss.num_pinned;
  if (names.text && miss.token) {
    out["token"] = *miss.token;
    out["text"] = names.text(*miss.token);
    if (names.tell_cached && miss.cached_token) {
      out["cached_token"] = *miss.cached_token;
      out["cached_text"] = names.text(*miss.cached_token);
    }
  }
  if (miss.by) out["by"] = names.others(*miss.by);
  if (miss.age) out["evicted_ms_before"] = to_seconds(*miss.age) * 1e3;
  out["because"] = because_of(miss, names);
  return out;
}

}  // namespace quire
