#include "hub/url_cache.h"

#include <algorithm>
#include <fstream>
#include <system_error>
#include <unistd.h>

#include <fmt/format.h>

#include "base/json.h"
#include "base/printable.h"
#include "hub/file_hash.h"
#include "weights/hub_cache.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSourceFile = "source.json";
constexpr std::uint64_t kMaxSourceBytes = 16U << 20;

Result<UrlCache::Source> read_source(const fs::path& path) {
  QUIRE_ASSIGN_OR_RETURN(const auto value, read_json_file(path, kMaxSourceBytes));
  if (!value.is_object()) return Status::bad_model(path.string() + ": no object");
  const JsonReader reader(value.get_object(), path.string());
  UrlCache::Source source;
  QUIRE_ASSIGN_OR_RETURN(source.address, reader.get_string("address"));
  QUIRE_ASSIGN_OR_RETURN(source.open, reader.get_string("open"));
  const json::value* files = reader.find("files");
  if (files == nullptr || !files->is_array()) return reader.type_error("files", "a list");
  for (const json::value& each : files->get_array()) {
    if (!each.is_object()) return reader.type_error("files", "a list of objects");
    const JsonReader file(each.get_object(), path.string());
    UrlCache::File& found = source.files.emplace_back();
    QUIRE_ASSIGN_OR_RETURN(found.name, file.get_string("name"));
    QUIRE_ASSIGN_OR_RETURN(found.etag, file.get_string("etag"));
    QUIRE_ASSIGN_OR_RETURN(const std::int64_t size, file.get_int("size"));
    found.size = static_cast<std::uint64_t>(size);
    if (!stays_below(found.name)) return file.type_error("name", "a name below the folder");
  }
  return source;
}

}  // namespace

fs::path UrlCache::folder(std::string_view address) const {
  constexpr std::size_t kDigits = 16;
  constexpr std::size_t kMaxName = 80;
  std::string_view end = address.substr(0, address.find_first_of("?#"));
  end = end.substr(end.rfind('/') + 1);
  std::string name;
  for (const char c : end.substr(0, kMaxName)) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    name += is_plain ? c : '_';
  }
  if (!stays_below(name)) name = "model";
  return root_ / sha256_hex(address).substr(0, kDigits) / name;
}

std::optional<UrlCache::Source> UrlCache::find(std::string_view address) const {
  auto source = read_source(folder(address) / kSourceFile);
  if (!source.ok() || source->address != address) return std::nullopt;
  for (const File& file : source->files) {
    std::error_code error;
    if (fs::file_size(folder(address) / file.name, error) != file.size || error) {
      return std::nullopt;
    }
  }
  return *std::move(source);
}

Status UrlCache::write(const Source& source) const {
  json::array files;
  for (const File& file : source.files) {
    files.push_back({{"name", file.name}, {"etag", file.etag}, {"size", file.size}});
  }
  const json::object value = {
      {"address", source.address}, {"open", source.open}, {"files", std::move(files)}};
  const fs::path path = folder(source.address) / kSourceFile;
  const fs::path fresh = path.string() + fmt::format(".{}", ::getpid());
  std::ofstream file(fresh, std::ios::binary | std::ios::trunc);
  file << json::serialize(value) << '\n';
  file.close();
  std::error_code error;
  if (file) fs::rename(fresh, path, error);
  if (!file || error) {
    return Status::io_error(
        fmt::format("cannot write {}", printable(path.string(), 400)),
        "make room or allow writing there, or name another cache with XDG_CACHE_HOME");
  }
  return {};
}

Result<std::vector<UrlCache::Source>> UrlCache::list() const {
  std::vector<Source> sources;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(root_, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry.depth() != 1) continue;
    auto source = read_source(entry->path() / kSourceFile);
    if (source.ok() && folder(source->address) == entry->path()) {
      sources.push_back(*std::move(source));
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return Status::io_error(
        fmt::format("cannot list {}: {}", printable(root_.string(), 400), error.message()));
  }
  std::ranges::sort(sources, {}, &Source::address);
  return sources;
}

}  // namespace quire
