#include "serve/protocols/openai/routes.h"

#include <iterator>
#include <utility>

#include "serve/protocols/openai/chat_completions.h"
#include "serve/protocols/openai/completions.h"
#include "serve/protocols/openai/embeddings.h"
#include "serve/protocols/openai/models.h"
#include "serve/protocols/openai/prefixes.h"
#include "serve/protocols/openai/responses.h"
#include "serve/protocols/openai/tokenization.h"

namespace quire {

std::vector<Route> openai_routes(Service& service) {
  std::vector<Route> all;
  for (auto& routes :
       {model_routes(service), completion_routes(service), chat_completion_routes(service),
        embedding_routes(service), response_routes(service), tokenization_routes(service),
        prefix_routes(service)}) {
    all.insert(all.end(), routes.begin(), routes.end());
  }
  return all;
}

}  // namespace quire
