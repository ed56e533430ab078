#include "serve/page/page_files.h"

#include <algorithm>
#include <array>
#include <memory>
#include <openssl/evp.h>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/sha256.h"
#include "serve/http/http_error.h"
#include "serve/page/embedded_files.h"

namespace quire {
namespace {

constexpr std::string_view kIndex = "index.html";

const EmbeddedFile* find_file(std::string_view name) {
  const auto files = embedded_files();
  const auto file = std::ranges::find(files, name, &EmbeddedFile::name);
  return file == files.end() ? nullptr : std::to_address(file);
}

// " 'sha256-...'" for each element between `begin` and `end`, by which a policy allows it (Content
// Security Policy Level 3, section 8.3).
std::string hashes_of(std::string_view page, std::string_view begin, std::string_view end) {
  std::string hashes;
  for (std::size_t at = page.find(begin); at != page.npos; at = page.find(begin, at)) {
    at += begin.size();
    const std::string_view text = page.substr(at, page.find(end, at) - at);
    const auto digest = sha256(std::as_bytes(std::span(text)));
    std::array<unsigned char, 45> base64{};
    EVP_EncodeBlock(base64.data(), reinterpret_cast<const unsigned char*>(digest.data()),
                    sizeof(digest));
    hashes += fmt::format(" 'sha256-{}'", reinterpret_cast<const char*>(base64.data()));
  }
  return hashes;
}

// The page runs its own scripts and talks to its own server only.
std::string content_policy() {
  const EmbeddedFile* index = find_file(kIndex);
  const std::string_view page = index == nullptr ? std::string_view() : index->content;
  return fmt::format(
      "default-src 'none'; script-src 'self'{}; style-src 'self'{}; connect-src 'self'; font-src "
      "'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      hashes_of(page, "<script>", "</script>"), hashes_of(page, "<style>", "</style>"));
}

// Of the kinds that quire_embed() embeds, and its script makes.
std::string_view content_type_of(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kTypes = {
      {{".html", "text/html; charset=utf-8"},
       {".css", "text/css; charset=utf-8"},
       {".js", "text/javascript; charset=utf-8"},
       {".svg", "image/svg+xml"},
       {".txt", "text/plain; charset=utf-8"},
       {".woff2", "font/woff2"}}};
  const auto* type =
      std::ranges::find_if(kTypes, [&](const auto& each) { return name.ends_with(each.first); });
  return type == kTypes.end() ? "application/octet-stream" : type->second;
}

// Whether the client has this version: "*", or the tag among those that If-None-Match lists. Weak
// tags (W/"...", as proxies that compress make them) are equal, too.
bool has_version(const HttpRequest& request, std::string_view quoted_tag) {
  const std::string* known = request.header("If-None-Match");
  return known != nullptr && (*known == "*" || known->find(quoted_tag) != std::string::npos);
}

void serve_file(Exchange& exchange, std::string_view name, const std::string& policy) {
  const EmbeddedFile* file = find_file(name);
  if (file == nullptr) {
    return exchange.respond(http_error(404, "the page has no such file", "unknown_url"));
  }
  const std::string tag = fmt::format("\"{}\"", file->tag);
  HttpResponse response;
  response.content_type = content_type_of(name);
  response.headers = {{"ETag", tag},
                      {"Cache-Control", "no-cache"},  // kept, but asked about
                      {"Content-Security-Policy", policy},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"}};
  if (has_version(exchange.request(), tag)) {
    response.status = 304;
    response.content_type.clear();
  } else {
    response.body = file->content;
  }
  exchange.respond(std::move(response));
}

}  // namespace

std::vector<Route> page_file_routes() {
  const std::string policy = content_policy();
  std::vector<Route> routes;
  routes.push_back(
      {.method = "GET",
       .pattern = "/",
       .handler = [policy](const auto& exchange) { serve_file(*exchange, kIndex, policy); },
       .access = RouteAccess::kOpen,
       .inline_handler = true});
  routes.push_back({.method = "GET",
                    .pattern = "/page/{file}",
                    .handler =
                        [policy](const auto& exchange) {
                          serve_file(*exchange, exchange->request().path_param("file"), policy);
                        },
                    .access = RouteAccess::kOpen,
                    .inline_handler = true});
  return routes;
}

}  // namespace quire
