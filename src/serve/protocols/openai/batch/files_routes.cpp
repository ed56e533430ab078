#include "serve/protocols/openai/batch/files_routes.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "base/json.h"
#include "serve/protocols/openai/batch/multipart.h"
#include "serve/protocols/openai/batch/storage_error.h"
#include "serve/protocols/openai/request_body.h"
#include "text/utf8.h"

namespace quire {
namespace {

constexpr std::int64_t kDay = 24 * 3600;
constexpr std::int64_t kDefaultLifetime = 30 * kDay;  // OpenAI's for files of batches
constexpr std::uint64_t kMultipartOverhead = 64 * 1024;
constexpr std::int64_t kMaxListedFiles = 10'000;
constexpr std::uint64_t kMaxDownloads = 2;  // of the largest size at a time

json::object file_object(const FileInfo& file) {
  json::object object = {{"id", file.id},
                         {"object", "file"},
                         {"bytes", file.bytes},
                         {"created_at", file.created_at},
                         {"filename", file.filename},
                         {"purpose", file.purpose},
                         {"status", "processed"}};
  if (file.expires_at) object["expires_at"] = *file.expires_at;
  return object;
}

void respond_json(Exchange& exchange, const json::object& object) {
  exchange.respond({.body = json::serialize(object)});
}

struct Upload {
  const MultipartPart* file = nullptr;
  std::int64_t lifetime = kDefaultLifetime;
};

std::optional<ApiError> read_lifetime(std::string_view text, std::int64_t& lifetime) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, lifetime);
  if (error == std::errc() && stop == end && lifetime >= 3600 && lifetime <= 30 * kDay) return {};
  return bad_field("expires_after[seconds]",
                   fmt::format("expires_after[seconds]: expected 3600 to {}", 30 * kDay));
}

std::optional<ApiError> read_part(const MultipartPart& part, Upload& upload) {
  if (part.name == "file") {
    upload.file = &part;
    return {};
  }
  if (part.name == "purpose") {
    if (part.data == "batch") return {};
    ApiError error = bad_field(
        "purpose", fmt::format("purpose: '{}' is not supported by this server, only 'batch'",
                               is_valid_utf8(part.data) ? part.data.substr(0, 64) : "?"));
    error.code = "unsupported_value";
    return error;
  }
  if (part.name == "expires_after[seconds]") return read_lifetime(part.data, upload.lifetime);
  if (part.name == "expires_after[anchor]" && part.data == "created_at") return {};
  return bad_field(sanitized_filename(part.name),
                   fmt::format("{}: there is no such field, or not with this value",
                               sanitized_filename(part.name)));
}

std::variant<Upload, ApiError> read_upload(const std::vector<MultipartPart>& parts,
                                           const BatchLimits& limits) {
  Upload upload;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto first = std::ranges::find(parts, parts[i].name, &MultipartPart::name);
    if (first != parts.begin() + static_cast<std::ptrdiff_t>(i)) {
      return bad_field(sanitized_filename(parts[i].name),
                       fmt::format("{}: it stands there twice", sanitized_filename(parts[i].name)));
    }
    if (auto error = read_part(parts[i], upload)) return *error;
  }
  if (std::ranges::find(parts, "purpose", &MultipartPart::name) == parts.end()) {
    return bad_field("purpose", "purpose: the field is missing");
  }
  if (upload.file == nullptr) return bad_field("file", "file: the field is missing");
  if (upload.file->data.size() > limits.max_file_bytes) {
    ApiError error = bad_field(
        "file", fmt::format("file: {} bytes are more than the limit of {}; part the batch",
                            upload.file->data.size(), limits.max_file_bytes));
    error.status = 413;
    return error;
  }
  return upload;
}

void create_file(FileStore& files, const BatchLimits& limits, std::int64_t now,
                 Exchange& exchange) {
  const HttpRequest& request = exchange.request();
  const std::string* type = request.header("Content-Type");
  const auto parts = parse_multipart(type != nullptr ? *type : std::string(), request.body);
  if (!parts.ok()) return respond_error(exchange, to_api_error(parts.status(), "file"));
  const auto read = read_upload(*parts, limits);
  if (const auto* error = std::get_if<ApiError>(&read)) return respond_error(exchange, *error);
  const auto& upload = std::get<Upload>(read);
  FileInfo info;
  info.filename = sanitized_filename(upload.file->filename);
  info.purpose = "batch";
  info.created_at = now;
  info.expires_at = now + upload.lifetime;
  const auto file = files.create(std::move(info), upload.file->data);
  if (!file.ok()) return respond_error(exchange, storage_error(file.status()));
  respond_json(exchange, file_object(*file));
}

void list_files(FileStore& files, Exchange& exchange) {
  const HttpRequest& request = exchange.request();
  const auto limit = read_limit(request, kMaxListedFiles, kMaxListedFiles);
  if (!limit.ok()) return respond_error(exchange, to_api_error(limit.status(), "limit"));
  FileListQuery query;
  query.limit = *limit;
  if (const std::string* after = request.query_param("after")) query.after = *after;
  if (const std::string* purpose = request.query_param("purpose")) query.purpose = *purpose;
  if (const std::string* order = request.query_param("order")) {
    if (*order != "asc" && *order != "desc") {
      return respond_error(exchange, bad_field("order", "order: expected asc or desc"));
    }
    query.ascending = *order == "asc";
  }
  const auto page = files.list(query);
  if (!page.ok()) return respond_error(exchange, storage_error(page.status(), "after"));
  json::array data;
  for (const FileInfo& file : page->items) data.push_back(file_object(file));
  respond_json(exchange, {{"object", "list"},
                          {"data", std::move(data)},
                          {"first_id", page->items.empty() ? "" : page->items.front().id},
                          {"last_id", page->items.empty() ? "" : page->items.back().id},
                          {"has_more", page->has_more}});
}

void show_file(FileStore& files, Exchange& exchange) {
  const auto file = files.get(exchange.request().path_param("id"));
  if (!file.ok()) return respond_error(exchange, storage_error(file.status()));
  respond_json(exchange, file_object(*file));
}

void delete_file(FileStore& files, Exchange& exchange) {
  const std::string id(exchange.request().path_param("id"));
  const Status status = files.remove(id);
  if (!status.ok()) return respond_error(exchange, storage_error(status));
  respond_json(exchange, {{"id", id}, {"object", "file"}, {"deleted", true}});
}

// How many bytes of files are in memory on their way to clients. An exchange that has gone has let
// go of its bytes.
class Downloads {
 public:
  explicit Downloads(std::uint64_t most) : most_(most) {}

  bool take(const std::shared_ptr<Exchange>& exchange, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    std::erase_if(going_, [](const auto& entry) { return entry.first.expired(); });
    std::uint64_t sum = bytes;
    for (const auto& entry : going_) sum += entry.second;
    if (sum > most_) return false;
    going_.emplace_back(exchange, bytes);
    return true;
  }

 private:
  std::uint64_t most_;
  std::mutex mutex_;
  std::vector<std::pair<std::weak_ptr<Exchange>, std::uint64_t>> going_;
};

struct ByteRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

// "bytes=10-" and "bytes=10-19"; other forms are as good as absent (RFC 9110 allows that).
std::optional<ByteRange> read_range(const HttpRequest& request, std::int64_t file_bytes) {
  const std::string* header = request.header("Range");
  if (header == nullptr || !header->starts_with("bytes=")) return std::nullopt;
  const char* at = header->data() + 6;
  const char* const end = header->data() + header->size();
  ByteRange range{.first = 0, .last = file_bytes - 1};
  const auto first = std::from_chars(at, end, range.first);
  if (first.ec != std::errc() || range.first < 0 || first.ptr == end || *first.ptr != '-') {
    return std::nullopt;
  }
  at = first.ptr + 1;
  if (at != end) {
    const auto last = std::from_chars(at, end, range.last);
    if (last.ec != std::errc() || last.ptr != end || range.last < range.first) return std::nullopt;
  }
  range.last = std::min(range.last, file_bytes - 1);
  return range;
}

ApiError range_error(const FileInfo& file) {
  ApiError error;
  error.status = 416;
  error.message = fmt::format("Range: the file has {} bytes", file.bytes);
  error.headers.push_back({"Content-Range", fmt::format("bytes */{}", file.bytes)});
  return error;
}

void send_content(FileStore& files, const BatchLimits& limits, Downloads& downloads,
                  const std::shared_ptr<Exchange>& exchange) {
  const auto file = files.get(exchange->request().path_param("id"));
  if (!file.ok()) return respond_error(*exchange, storage_error(file.status()));
  const auto range = read_range(exchange->request(), file->bytes);
  if (range && range->first >= file->bytes) return respond_error(*exchange, range_error(*file));
  const std::int64_t begin = range ? range->first : 0;
  const std::int64_t size = range ? range->last - range->first + 1 : file->bytes;
  if (static_cast<std::uint64_t>(size) > limits.max_download_bytes) {
    ApiError error;
    error.message = fmt::format(
        "the file has {} bytes, at most {} come in one answer; ask for it in pieces "
        "with the header Range (\"bytes=0-{}\" and so on)",
        file->bytes, limits.max_download_bytes, limits.max_download_bytes - 1);
    error.param = "Range";
    return respond_error(*exchange, error);
  }
  if (!downloads.take(exchange, static_cast<std::uint64_t>(size))) {
    ApiError error;
    error.status = 503;
    error.type = "server_error";
    error.message = "other downloads take all the memory that there is for them; try again";
    error.headers.push_back({"Retry-After", "5"});
    return respond_error(*exchange, error);
  }
  auto content = files.read(*file, begin, size);
  if (!content.ok()) return respond_error(*exchange, storage_error(content.status()));
  HttpResponse response{.content_type = "application/octet-stream"};
  response.headers.push_back({"Accept-Ranges", "bytes"});
  if (range) {
    response.status = 206;
    response.headers.push_back(
        {"Content-Range", fmt::format("bytes {}-{}/{}", range->first, range->last, file->bytes)});
  }
  response.body = std::move(*content);
  exchange->respond(std::move(response));
}

}  // namespace

std::vector<Route> files_routes(FileStore& files, const BatchLimits& limits, UnixClock now) {
  const auto downloads = std::make_shared<Downloads>(kMaxDownloads * limits.max_download_bytes);
  std::vector<Route> routes;
  routes.push_back(
      {.method = "POST",
       .pattern = "/v1/files",
       .handler = [&files, &limits, now = std::move(now)](
                      const auto& exchange) { create_file(files, limits, now(), *exchange); },
       .content_type = "multipart/form-data",
       .max_body_bytes = limits.max_file_bytes + kMultipartOverhead});
  routes.push_back({.method = "GET",
                    .pattern = "/v1/files",
                    .handler = [&files](const auto& exchange) { list_files(files, *exchange); }});
  routes.push_back({.method = "GET",
                    .pattern = "/v1/files/{id}",
                    .handler = [&files](const auto& exchange) { show_file(files, *exchange); }});
  routes.push_back({.method = "DELETE",
                    .pattern = "/v1/files/{id}",
                    .handler = [&files](const auto& exchange) { delete_file(files, *exchange); }});
  routes.push_back({.method = "GET",
                    .pattern = "/v1/files/{id}/content",
                    .handler = [&files, &limits, downloads](const auto& exchange) {
                      send_content(files, limits, *downloads, exchange);
                    }});
  return routes;
}

}  // namespace quire
