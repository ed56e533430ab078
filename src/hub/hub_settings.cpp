#include "hub/hub_settings.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "base/file.h"
#include "base/printable.h"
#include "hub/url.h"
#include "weights/hub_cache.h"

namespace quire {
namespace {

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_true(std::string value) {
  std::ranges::transform(value, value.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  constexpr std::array<std::string_view, 4> kTrue = {"1", "ON", "YES", "TRUE"};
  return std::ranges::find(kTrue, value) != kTrue.end();
}

std::string without_spaces_around(std::string text) {
  const auto is_space = [](char c) { return static_cast<unsigned char>(c) <= ' '; };
  while (!text.empty() && is_space(text.back())) text.pop_back();
  text.erase(0, static_cast<std::size_t>(std::ranges::find_if_not(text, is_space) - text.begin()));
  return text;
}

bool is_fit_for_header(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7F; });
}

Status read_endpoint(const char* name, std::string& endpoint) {
  std::string value = setting(name);
  if (value.empty()) return {};
  while (value.ends_with('/')) value.pop_back();
  if (origin_of(value).empty() || !is_fit_for_header(value)) {
    return Status::config(fmt::format("{}={} is no address", name, printable(value, 300)),
                          "write it like https://huggingface.co");
  }
  endpoint = std::move(value);
  return {};
}

Status read_token(HubSettings& settings) {
  settings.token = without_spaces_around(setting("HF_TOKEN"));
  std::string from = "HF_TOKEN";
  if (settings.token.empty()) {
    const std::string named = setting("HF_TOKEN_PATH");
    const std::filesystem::path path =
        named.empty() ? hub_home() / "token" : std::filesystem::path(named);
    constexpr std::uint64_t kMaxTokenBytes = 4096;
    auto text = read_file(path, kMaxTokenBytes);
    if (!text.ok()) return {};  // most people have none
    settings.token = without_spaces_around(*std::move(text));
    from = path.string();
  }
  if (is_fit_for_header(settings.token)) return {};
  return Status::config(
      fmt::format("the token of {} has spaces or control characters in it", printable(from, 300)),
      "copy it again from huggingface.co/settings/tokens");
}

Status read_s3_settings(HubSettings& settings) {
  QUIRE_RETURN_IF_ERROR(read_endpoint("AWS_ENDPOINT_URL", settings.s3_endpoint));
  QUIRE_RETURN_IF_ERROR(read_endpoint("AWS_ENDPOINT_URL_S3", settings.s3_endpoint));
  for (const char* name : {"AWS_DEFAULT_REGION", "AWS_REGION"}) {
    if (std::string value = setting(name); !value.empty()) settings.s3_region = std::move(value);
  }
  AwsSigning keys;
  keys.access_key = setting("AWS_ACCESS_KEY_ID");
  keys.secret_key = setting("AWS_SECRET_ACCESS_KEY");
  keys.session_token = setting("AWS_SESSION_TOKEN");
  keys.region = settings.s3_region;
  for (const std::string& text :
       {keys.access_key, keys.secret_key, keys.session_token, keys.region}) {
    if (!is_fit_for_header(text)) {
      return Status::config("an AWS_... variable has spaces or control characters in it",
                            "check the keys and AWS_REGION");
    }
  }
  // libcurl wants both in one text.
  if (keys.access_key.find(':') != std::string::npos ||
      keys.region.find(':') != std::string::npos) {
    return Status::config("AWS_ACCESS_KEY_ID or AWS_REGION has a colon in it", "check them");
  }
  if (keys.access_key.empty() != keys.secret_key.empty()) {
    return Status::config(
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY belong together, and only one is set",
        "set both, or neither for a bucket that everybody may read");
  }
  if (!keys.access_key.empty()) settings.signing = std::move(keys);
  return {};
}

}  // namespace

Result<HubSettings> hub_settings_from_environment() {
  HubSettings settings;
  QUIRE_RETURN_IF_ERROR(read_endpoint("HF_ENDPOINT", settings.endpoint));
  QUIRE_RETURN_IF_ERROR(read_token(settings));
  settings.offline = is_true(setting("HF_HUB_OFFLINE")) || is_true(setting("TRANSFORMERS_OFFLINE"));
  settings.cache = hub_cache_root();
  const std::string cache = setting("XDG_CACHE_HOME");
  const std::filesystem::path caches = cache.empty()
                                           ? std::filesystem::path(setting("HOME")) / ".cache"
                                           : std::filesystem::path(cache);
  settings.url_cache = caches / "quire/models";
  QUIRE_RETURN_IF_ERROR(read_s3_settings(settings));
  return settings;
}

}  // namespace quire
