// Why the prefix cache did not have a prompt, or not all of it, in words.
#pragma once

#include <functional>
#include <string>

#include "base/json.h"
#include "engine/api.h"

namespace quire {

// What a client calls a request; the number itself where that is not known any more.
using RequestNames = std::function<std::string(RequestId)>;

// How the parts of such a story may be called by whoever asks.
struct PrefixNames {
  RequestNames others;  // "another key", where a request is not of the same one
  // A token's text; empty: whoever asks may not see the prompt. What the closest cached prefix has
  // in its place is told only where it is the same key's.
  std::function<std::string(TokenId)> text = {};
  bool tell_cached = false;
  bool salted = false;  // the request had a cache_salt
};

// {"found_tokens", "miss", "because"}, "pinned_tokens" where the first so many of those that were
// found are pinned, and with a text "token", "text", with both "cached_token",
// "cached_text"; where they are known "by", who needed the block or computed the prefix, and
// "evicted_ms_before" the request started.
json::object prefix_json(const PrefixMiss& miss, const PrefixNames& names);

}  // namespace quire
