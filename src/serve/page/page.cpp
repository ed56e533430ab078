#include "serve/page/page.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "serve/page/page_files.h"
#include "serve/page/page_info.h"
#include "serve/page/page_tokens.h"

namespace quire {

std::vector<Route> page_routes(Service& service) {
  // Before the files: the first pattern that matches takes the request.
  std::vector<Route> routes = {page_info_route(service), page_tokens_route(service)};
  std::vector<Route> files = page_file_routes();
  std::ranges::move(files, std::back_inserter(routes));
  return routes;
}

}  // namespace quire
