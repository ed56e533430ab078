#include "serve/tracing/otlp_settings.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "serve/http/field_text.h"
#include "text/utf8.h"

namespace quire {
namespace {

constexpr std::string_view kTracesPath = "/v1/traces";

struct Setting {
  std::string name;  // of the flag or variable, for messages
  std::string value;
};

// The value of a variable; an empty one counts as not set, as the specification says.
std::optional<Setting> find(const Environment& environment, const std::string& name) {
  auto value = environment(name.c_str());
  if (!value || value->empty()) return std::nullopt;
  return Setting{name, *std::move(value)};
}

// OTEL_EXPORTER_OTLP_TRACES_<name>, else OTEL_EXPORTER_OTLP_<name>.
std::optional<Setting> find_exporter(const Environment& environment, const std::string& name) {
  auto own = find(environment, "OTEL_EXPORTER_OTLP_TRACES_" + name);
  return own ? own : find(environment, "OTEL_EXPORTER_OTLP_" + name);
}

Status check_url(const Setting& setting) {
  const std::string_view url = setting.value;
  constexpr std::string_view kRemedy =
      "give the URL of a collector's OTLP/HTTP receiver, like http://localhost:4318/v1/traces";
  const std::size_t scheme = url.find("://");
  const std::string_view rest = scheme == std::string_view::npos ? url : url.substr(scheme + 3);
  const std::string_view host = rest.substr(0, rest.find('/'));
  // First, so that no message shows a password.
  if (host.find('@') != std::string_view::npos) {
    return Status::invalid_argument(
        fmt::format("{}: user and password do not belong into the address", setting.name),
        "send them as a header, by OTEL_EXPORTER_OTLP_HEADERS");
  }
  if (url.starts_with("grpc://") || url.starts_with("grpcs://")) {
    return Status::unimplemented(
        fmt::format("{}: {}: OTLP over gRPC is not supported, only over HTTP", setting.name,
                    shown(url)),
        std::string(kRemedy));
  }
  const bool http = url.starts_with("http://") || url.starts_with("https://");
  const bool plain = std::ranges::all_of(url, [](char c) { return c > ' ' && c <= '~'; });
  if (!http || host.empty() || !plain || url.find_first_of("?#") != std::string_view::npos) {
    return Status::invalid_argument(
        fmt::format("{}: {}: this is not the address of an OTLP/HTTP receiver", setting.name,
                    shown(url)),
        std::string(kRemedy));
  }
  return {};
}

bool has_path(std::string_view url) {
  const std::size_t slash = url.find('/', url.find("://") + 3);
  return slash != std::string_view::npos && slash + 1 < url.size();
}

std::string with_traces_path(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  return url + std::string(kTracesPath);
}

// Empty where nobody names an endpoint.
Result<std::string> read_url(std::string_view endpoint, const Environment& environment) {
  if (!endpoint.empty()) {
    const Setting flag = {"--otlp-traces-endpoint", std::string(endpoint)};
    QUIRE_RETURN_IF_ERROR(check_url(flag));
    return has_path(flag.value) ? flag.value : with_traces_path(flag.value);
  }
  if (const auto traces = find(environment, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")) {
    QUIRE_RETURN_IF_ERROR(check_url(*traces));
    return traces->value;  // as it is, says the specification
  }
  if (const auto base = find(environment, "OTEL_EXPORTER_OTLP_ENDPOINT")) {
    QUIRE_RETURN_IF_ERROR(check_url(*base));
    return with_traces_path(base->value);
  }
  return std::string();
}

Result<std::string> percent_decoded(std::string_view text, const std::string& name) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    unsigned value = 0;
    const char* begin = text.data() + i + 1;
    const char* end = text.data() + std::min(i + 3, text.size());
    const auto [rest, error] = std::from_chars(begin, end, value, 16);
    if (error != std::errc() || rest != begin + 2) {
      return Status::invalid_argument(
          fmt::format("{}: two hexadecimal digits have to follow each %", name));
    }
    out += static_cast<char>(value);
    i += 2;
  }
  return out;
}

// "key1=value1,key2=value2", values percent-encoded.
Result<std::vector<std::pair<std::string, std::string>>> read_pairs(const Setting& setting) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string_view member : split_members(setting.value)) {
    const std::size_t equals = member.find('=');
    const std::string_view key = trimmed(member.substr(0, equals));
    if (equals == std::string_view::npos || key.empty()) {
      return Status::invalid_argument(
          fmt::format("{}: expected key=value pairs with commas between", setting.name));
    }
    QUIRE_ASSIGN_OR_RETURN(std::string name, percent_decoded(key, setting.name));
    QUIRE_ASSIGN_OR_RETURN(std::string value,
                           percent_decoded(trimmed(member.substr(equals + 1)), setting.name));
    pairs.emplace_back(std::move(name), std::move(value));
  }
  return pairs;
}

// Values are not shown: they may be keys.
Result<std::vector<HttpHeader>> read_headers(const Environment& environment) {
  std::vector<HttpHeader> headers;
  const auto setting = find_exporter(environment, "HEADERS");
  if (!setting) return headers;
  QUIRE_ASSIGN_OR_RETURN(auto pairs, read_pairs(*setting));
  for (auto& [name, value] : pairs) {
    const bool token = std::ranges::all_of(name, [](char c) {
      return c > ' ' && c <= '~' &&
             std::string_view("\"(),/:;<=>?@[\\]{}").find(c) == std::string_view::npos;
    });
    const bool plain = std::ranges::none_of(
        value, [](char c) { return (c >= 0 && c < ' ' && c != '\t') || c == 0x7F; });
    if (!token || !plain) {
      return Status::invalid_argument(
          fmt::format("{}: \"{}\" cannot be sent as a header", setting->name, shown(name)));
    }
    headers.push_back({std::move(name), std::move(value)});
  }
  return headers;
}

Result<std::int64_t> read_count(const Setting& setting, std::int64_t least) {
  constexpr std::int64_t kMost = 3'600'000;
  std::int64_t value = 0;
  const char* end = setting.value.data() + setting.value.size();
  const auto [rest, error] = std::from_chars(setting.value.data(), end, value);
  if (error != std::errc() || rest != end || value < least || value > kMost) {
    return Status::invalid_argument(fmt::format("{}: {} is not a number from {} to {}",
                                                setting.name, shown(setting.value), least, kMost));
  }
  return value;
}

Status read_batching(const Environment& environment, OtlpSettings& settings) {
  if (const auto timeout = find_exporter(environment, "TIMEOUT")) {
    QUIRE_ASSIGN_OR_RETURN(const std::int64_t ms, read_count(*timeout, 1));
    settings.timeout = std::chrono::milliseconds(ms);
  }
  if (const auto delay = find(environment, "OTEL_BSP_SCHEDULE_DELAY")) {
    QUIRE_ASSIGN_OR_RETURN(const std::int64_t ms, read_count(*delay, 0));
    settings.exporter.batch_delay = std::chrono::milliseconds(ms);
  }
  if (const auto queue = find(environment, "OTEL_BSP_MAX_QUEUE_SIZE")) {
    QUIRE_ASSIGN_OR_RETURN(const std::int64_t count, read_count(*queue, 1));
    settings.exporter.max_queued_spans = static_cast<std::size_t>(count);
  }
  if (const auto batch = find(environment, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE")) {
    QUIRE_ASSIGN_OR_RETURN(const std::int64_t count, read_count(*batch, 1));
    settings.exporter.max_batch_spans = static_cast<std::size_t>(count);
  }
  settings.exporter.max_batch_spans =
      std::min(settings.exporter.max_batch_spans, settings.exporter.max_queued_spans);
  return {};
}

Status read_protocol(const Environment& environment, OtlpSettings& settings) {
  if (const auto protocol = find_exporter(environment, "PROTOCOL")) {
    if (protocol->value == "http/protobuf") {
      settings.notes.push_back(fmt::format(
          "{}=http/protobuf: spans are sent as JSON, which receivers of OTLP/HTTP take at the same "
          "address",
          protocol->name));
    } else if (protocol->value != "http/json") {
      return Status::unimplemented(fmt::format("{}: \"{}\" is not supported, only http/json",
                                               protocol->name, shown(protocol->value)),
                                   "name an OTLP/HTTP receiver and set it to http/json");
    }
  }
  if (const auto compression = find_exporter(environment, "COMPRESSION")) {
    if (compression->value != "none") {
      return Status::unimplemented(fmt::format("{}: \"{}\" is not supported, only none",
                                               compression->name, shown(compression->value)));
    }
  }
  for (const char* name : {"CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"}) {
    if (const auto file = find_exporter(environment, name)) {
      return Status::unimplemented(fmt::format("{} is not supported", file->name),
                                   "the system's certificates are trusted; unset it");
    }
  }
  return {};
}

Status read_resource(const Environment& environment, OtlpSettings& settings) {
  if (const auto attributes = find(environment, "OTEL_RESOURCE_ATTRIBUTES")) {
    QUIRE_ASSIGN_OR_RETURN(auto pairs, read_pairs(*attributes));
    for (auto& [key, value] : pairs) {
      if (!is_valid_utf8(key) || !is_valid_utf8(value)) {
        return Status::invalid_argument(fmt::format("{}: this is not UTF-8", attributes->name));
      }
      if (key == "service.name") {
        settings.service_name = std::move(value);
      } else {
        settings.resource.emplace_back(std::move(key), std::move(value));
      }
    }
  }
  if (auto name = find(environment, "OTEL_SERVICE_NAME")) {
    if (!is_valid_utf8(name->value)) {
      return Status::invalid_argument(fmt::format("{}: this is not UTF-8", name->name));
    }
    settings.service_name = std::move(name->value);
  }
  return {};
}

Status read_sampler(const Environment& environment, OtlpSettings& settings) {
  const auto name = find(environment, "OTEL_TRACES_SAMPLER");
  if (!name) return {};
  const auto ratio = find(environment, "OTEL_TRACES_SAMPLER_ARG");
  auto sampler = TraceSampler::create(name->value, ratio ? ratio->value : "");
  if (!sampler.ok()) {
    const bool unknown = sampler.status().code() == StatusCode::kUnimplemented;
    return {sampler.status().code(),
            fmt::format("{}: {}", unknown ? name->name : ratio->name,
                        shown(sampler.status().message())),
            sampler.status().remedy()};
  }
  settings.sampler = *sampler;
  return {};
}

}  // namespace

std::optional<std::string> process_environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

Result<std::optional<OtlpSettings>> read_otlp_settings(std::string_view endpoint,
                                                       const Environment& environment) {
  const auto disabled = find(environment, "OTEL_SDK_DISABLED");
  const auto exporter = find(environment, "OTEL_TRACES_EXPORTER");
  if (disabled && disabled->value == "true") return std::optional<OtlpSettings>();
  if (endpoint.empty() && exporter && exporter->value == "none") {
    return std::optional<OtlpSettings>();
  }
  OtlpSettings settings;
  QUIRE_ASSIGN_OR_RETURN(settings.exporter.url, read_url(endpoint, environment));
  if (settings.exporter.url.empty()) return std::optional<OtlpSettings>();
  QUIRE_RETURN_IF_ERROR(read_protocol(environment, settings));
  QUIRE_ASSIGN_OR_RETURN(settings.headers, read_headers(environment));
  QUIRE_RETURN_IF_ERROR(read_batching(environment, settings));
  QUIRE_RETURN_IF_ERROR(read_resource(environment, settings));
  QUIRE_RETURN_IF_ERROR(read_sampler(environment, settings));
  return std::optional<OtlpSettings>(std::move(settings));
}

}  // namespace quire
