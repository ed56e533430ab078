#include "hub/model_locator.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/printable.h"
#include "hub/url.h"
#include "weights/hub_cache.h"

namespace quire {
namespace {

constexpr std::string_view kForms =
    "give ORG/NAME, ORG/NAME@REVISION, ORG/NAME:Q4_K_M, file:///PATH, https://HOST/FILE.gguf, "
    "s3://BUCKET/KEY, or a path";

Status not_a_model(std::string_view text, std::string_view why) {
  return Status::invalid_argument(fmt::format("{} names no model: {}", printable(text, 300), why),
                                  kForms);
}

Result<ModelLocator> parse_address(std::string_view text, std::size_t mark) {
  const std::string_view scheme = text.substr(0, mark);
  const std::string_view rest = text.substr(mark + 3);
  ModelLocator locator;
  if (scheme == "file") {
    if (!rest.starts_with('/')) return not_a_model(text, "a file:// address has three slashes");
    locator.path = percent_decoded(rest);
    if (locator.path.find('\0') != std::string::npos) {
      return not_a_model(text, "a path has no NUL byte");
    }
    return locator;
  }
  if (printable(text, 8192) != text || text.find(' ') != text.npos) {
    return not_a_model(text, "an address has no spaces or control characters");
  }
  if (scheme == "http" || scheme == "https") {
    const std::string_view path = rest.substr(0, rest.find_first_of("?#"));
    if (rest.starts_with('/') || !path.ends_with(".gguf") || path.find('/') == path.npos) {
      return not_a_model(text, "an address of the web has to lead to a .gguf file");
    }
    locator.kind = ModelLocator::Kind::kUrl;
    locator.url = text.substr(0, text.find('#'));
    return locator;
  }
  if (scheme == "s3") {
    const std::size_t slash = std::min(rest.find('/'), rest.size());
    locator.kind = ModelLocator::Kind::kS3;
    locator.bucket = rest.substr(0, slash);
    locator.key = rest.substr(std::min(slash + 1, rest.size()));
    while (locator.key.ends_with('/')) locator.key.pop_back();
    const bool plain = std::ranges::all_of(locator.bucket, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
    });
    if (!plain || locator.bucket.size() < 3 || locator.bucket.size() > 63) {
      return not_a_model(text, "a bucket has 3 to 63 letters in lower case, digits, - and .");
    }
    if (!stays_below(locator.key)) return not_a_model(text, "no key follows the bucket");
    return locator;
  }
  return not_a_model(text, fmt::format("no model is fetched by {}://", printable(scheme)));
}

}  // namespace

std::string ModelLocator::text() const {
  switch (kind) {
    case Kind::kPath:
      return path;
    case Kind::kUrl:
      return url;
    case Kind::kS3:
      return fmt::format("s3://{}/{}", bucket, key);
    case Kind::kHub:
      break;
  }
  return fmt::format("{}{}{}{}{}", repo, revision == "main" ? "" : "@",
                     revision == "main" ? "" : revision, file.empty() ? "" : ":", file);
}

Result<ModelLocator> parse_model_locator(std::string_view text) {
  if (const std::size_t mark = text.find("://"); mark != text.npos) {
    return parse_address(text, mark);
  }
  ModelLocator locator;
  std::string_view repo = text;
  if (const std::size_t colon = repo.find(':'); colon != repo.npos) {
    locator.file = repo.substr(colon + 1);
    repo = repo.substr(0, colon);
  }
  const std::size_t at = repo.find('@');
  if (at != repo.npos) {
    locator.revision = repo.substr(at + 1);
    repo = repo.substr(0, at);
  }
  locator.repo = repo;
  const bool is_hub = repo.find('/') != repo.npos && is_hub_repo(repo);
  if (!is_hub) {
    ModelLocator local;
    local.path = text;
    return local;
  }
  if (at != text.npos && !stays_below(locator.revision)) {
    return not_a_model(text, "no revision follows the @");
  }
  if (text.find(':') != text.npos && !stays_below(locator.file)) {
    return not_a_model(text, "no name of a GGUF file follows the colon");
  }
  locator.kind = ModelLocator::Kind::kHub;
  return locator;
}

}  // namespace quire
