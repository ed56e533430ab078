#include "serve/page/page.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>

#include "serve/page/page_files.h"
#include "serve/page/page_info.h"
#include "serve/page/page_tokens.h"
#include "serve/protocols/openai/request_body.h"

namespace quire {

namespace {

// The numbers, computed by the first request that succeeds, for all later ones.
class KeptNumbers {
 public:
  explicit KeptNumbers(CalculatorNumbers numbers) : numbers_(std::move(numbers)) {}

  Result<std::string> get() {
    const std::lock_guard lock(mutex_);
    if (!kept_.empty()) return kept_;
    QUIRE_ASSIGN_OR_RETURN(kept_, numbers_());
    return kept_;
  }

 private:
  CalculatorNumbers numbers_;
  std::mutex mutex_;
  std::string kept_;
};

Route page_calculator_route(Service& service, CalculatorNumbers numbers) {
  const auto kept = std::make_shared<KeptNumbers>(std::move(numbers));
  return {
      .method = "GET",
      .pattern = "/page/calculator",
      .handler = [&service, kept](const auto& exchange) {
        auto found = kept->get();
        if (!found.ok()) {
          return respond_error(*exchange, request_error(found.status(), service.model(), ""));
        }
        exchange->respond({.headers = {{"Cache-Control", "no-store"}}, .body = *std::move(found)});
      }};
}

}  // namespace

std::vector<Route> page_routes(Service& service, CalculatorNumbers numbers) {
  // Before the files: the first pattern that matches gets the request.
  std::vector<Route> routes = {page_info_route(service), page_tokens_route(service),
                               page_calculator_route(service, std::move(numbers))};
  std::vector<Route> files = page_file_routes();
  std::ranges::move(files, std::back_inserter(routes));
  return routes;
}

}  // namespace quire
