// What the client wants to know about a server before it loads it: the model's name, and a supply
// of token ids.
#pragma once

#include <string>

#include "apps/bench_serve/connection.h"
#include "apps/bench_serve/prompt_source.h"

namespace quire::bench {

// `named`, else the first of /v1/models. Asks the server in both cases, so that one that is not
// there shows before the load does, and settles `address`. kUnavailable where it does not answer;
// where no model is named, also where it refuses, and kNotFound where it lists none.
Result<std::string> find_model(ServerAddress& address, const std::string& api_key,
                               const std::string& named);

// Ids of ordinary tokens, each once: those of PromptSource::words() by the server's /tokenize, as
// vLLM and Quire have it ("prompt") or llama.cpp ("content"). Empty where the server has no such
// route. kUnavailable where it does not answer.
Result<TokenIds> fetch_token_pool(ServerAddress& address, const std::string& api_key,
                                  const std::string& model);

}  // namespace quire::bench
