#include "hub/pull_address.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/file.h"
#include "base/printable.h"
#include "hub/fetch_files.h"
#include "hub/file_choice.h"
#include "hub/file_hash.h"
#include "hub/gguf_headers.h"
#include "hub/patient_request.h"
#include "hub/s3_listing.h"
#include "hub/transfers.h"
#include "hub/url.h"
#include "hub/url_cache.h"
#include "weights/gguf_split.h"
#include "weights/hub_cache.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxPageBytes = 16U << 20;
constexpr std::size_t kMaxPages = 100;
constexpr std::uint64_t kMaxShardIndexBytes = 64U << 20;
constexpr int kMaxHops = 5;

// The size of the whole file, of an answer to a request for its first byte.
std::optional<std::uint64_t> whole_size(const FetchAnswer& answer) {
  std::string_view text = answer.header("content-length");
  if (answer.status == 206) {
    text = answer.header("content-range");
    text = text.substr(std::min(text.rfind('/'), text.size()));
    if (!text.empty()) text.remove_prefix(1);
  }
  std::uint64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  return size;
}

class AddressPull {
 public:
  AddressPull(const ModelLocator& model, const HubSettings& settings, const PullListener& listener,
              Transfers transfers)
      : model_(model),
        settings_(settings),
        listener_(listener),
        transfers_(std::move(transfers)),
        asking_{.progress = [](std::uint64_t) {},
                .cancelled = listener.cancelled,
                .note = listener.note},
        cache_(settings.url_cache) {
    source_.address = model.text();
  }
  AddressPull(const AddressPull&) = delete;
  AddressPull& operator=(const AddressPull&) = delete;

  // `known`: what an earlier pull left.
  Result<PulledModel> run(std::vector<UrlCache::File> known) {
    fetched_ = std::move(known);
    if (is_folder()) {
      QUIRE_RETURN_IF_ERROR(fetch_folder());
    } else {
      QUIRE_ASSIGN_OR_RETURN(const auto names, take_file_names());
      QUIRE_RETURN_IF_ERROR(fetch(names));
    }
    QUIRE_RETURN_IF_ERROR(cache_.write(source_));
    PulledModel pulled;
    pulled.path = cache_.folder(source_.address) / source_.open;
    for (const UrlCache::File& file : source_.files) {
      pulled.files.push_back(file.name);
      pulled.bytes += file.size;
    }
    pulled.downloaded = downloaded_;
    return pulled;
  }

  Result<std::optional<fs::path>> run_headers(const fs::path& folder) {
    std::vector<std::string> names;
    if (is_folder()) {
      QUIRE_ASSIGN_OR_RETURN(const auto objects, list_objects());
      QUIRE_ASSIGN_OR_RETURN(const FileChoice choice, choose_files(objects, "", source_.address));
      if (choice.gguf.empty()) return std::optional<fs::path>();
      std::ranges::copy_if(choice.files, std::back_inserter(names),
                           [](const std::string& name) { return name.ends_with(".gguf"); });
    } else {
      QUIRE_ASSIGN_OR_RETURN(names, take_file_names());
    }
    std::vector<FetchedFile> files;
    for (const std::string& name : names) {
      std::string etag;
      FetchedFile& file = files.emplace_back();
      QUIRE_ASSIGN_OR_RETURN(file.remote, look_at(name, etag));
      file.target = folder / fs::path(name).filename();
      file.explain = [this, name](const FetchAnswer& answer) { return explain(answer, name); };
    }
    QUIRE_RETURN_IF_ERROR(fetch_gguf_headers(files, transfers_, listener_));
    return std::optional(files.front().target);
  }

 private:
  bool is_s3() const { return model_.kind == ModelLocator::Kind::kS3; }
  bool is_folder() const { return is_s3() && !model_.key.ends_with(".gguf"); }

  // The model's one file, or all parts of a split one whose first part it is; the first is opened.
  Result<std::vector<std::string>> take_file_names() {
    const std::string path = is_s3() ? model_.key : model_.url.substr(0, model_.url.find('?'));
    std::string name = path.substr(path.rfind('/') + 1);
    if (!is_s3()) name = percent_decoded(name);
    if (!stays_below(name) || name.find('/') != std::string::npos) {
      return Status::invalid_argument(fmt::format("{} is no name for a file", printable(name)),
                                      "fetch it another way");
    }
    source_.open = name;
    std::vector<std::string> names = {name};
    const auto part = gguf_part_of_name(name);
    if (!part || part->number != 1 || part->count > kGgufMaxParts) return names;
    for (int number = 2; number <= part->count; ++number) {
      names.push_back(other_gguf_part(name, number).string());
    }
    return names;
  }

  // Of the bucket; names of buckets with dots in them are no names of hosts.
  std::string bucket_url() const {
    if (!settings_.s3_endpoint.empty()) {
      return fmt::format("{}/{}", settings_.s3_endpoint, model_.bucket);
    }
    const std::string host = fmt::format("s3.{}.amazonaws.com", settings_.s3_region);
    const bool is_host = model_.bucket.find('.') == std::string::npos;
    return is_host ? fmt::format("https://{}.{}", model_.bucket, host)
                   : fmt::format("https://{}/{}", host, model_.bucket);
  }

  std::string url_of(const std::string& name) const {
    if (!is_s3()) {
      if (name == source_.open) return model_.url;
      // Another part: beside the first.
      const std::size_t query = std::min(model_.url.find('?'), model_.url.size());
      const std::size_t slash = model_.url.rfind('/', query);
      return model_.url.substr(0, slash + 1) + percent_encoded(name) + model_.url.substr(query);
    }
    const bool beside = !source_.open.empty();
    const std::string folder =
        beside ? model_.key.substr(0, model_.key.rfind('/') + 1) : model_.key + "/";
    const std::string key = folder + name;
    return fmt::format("{}/{}", bucket_url(), percent_encoded(key, "/"));
  }

  Status explain(const FetchAnswer& answer, const std::string& what) const {
    const std::string server = server_of(url_of(what));
    const std::string code = xml_text(answer.body, "Code");
    const std::string said = xml_text(answer.body, "Message");
    const std::string quote =
        said.empty() ? "" : fmt::format(" ({}: {})", printable(code), printable(said, 300));
    const std::string asked = is_s3()
                                  ? fmt::format("{} of {}", printable(what, 300), source_.address)
                                  : printable(what, 300);
    if (answer.status == 404) {
      return Status::not_found(fmt::format("{} has no {}{}", server, asked, quote),
                               "check the address");
    }
    if (answer.status == 401 || answer.status == 403) {
      std::string remedy = "ask who runs the server for an address with access";
      if (is_s3()) {
        remedy = settings_.signing
                     ? "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and "
                       "what they may read"
                     : "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
      }
      return Status::config(fmt::format("{} does not give {}{}", server, asked, quote), remedy);
    }
    if (answer.status == 412) {
      return Status::unavailable(
          fmt::format("{} changed on {} while it was fetched", asked, server), "pull again");
    }
    if (is_s3() && answer.status / 100 == 3) {
      return Status::config(fmt::format("the bucket {} is elsewhere{}", model_.bucket, quote),
                            "set AWS_REGION to its region, or AWS_ENDPOINT_URL to its server");
    }
    return Status::unavailable(
        fmt::format("{} answers {} to a request for {}{}", server, answer.status, asked, quote),
        "try again later");
  }

  // Asks for the first byte of a file: who may not answer to HEAD answers to that.
  Result<RemoteFile> look_at(const std::string& name, std::string& etag) {
    RemoteFile file;
    file.name = printable(name, 200);
    file.url = url_of(name);
    if (is_s3()) file.signing = settings_.signing;
    FetchRequest request;
    request.url = file.url;
    request.headers = {"Range: bytes=0-0"};
    request.signing = file.signing;
    request.head_by_get = true;
    for (int hops = 0;; ++hops) {
      std::string body;
      QUIRE_ASSIGN_OR_RETURN(const FetchAnswer answer,
                             patient_request(transfers_, request, 0, body, asking_));
      if (!is_s3() && answer.status / 100 == 3 && hops < kMaxHops) {
        const bool safe =
            answer.location.starts_with("https://") ||
            (answer.location.starts_with("http://") && request.url.starts_with("http://"));
        if (!safe) {
          return Status::unavailable(fmt::format("{} redirects to {}, which is not as safe",
                                                 server_of(request.url),
                                                 printable(answer.location, 300)));
        }
        request.url = answer.location;
        continue;
      }
      const bool is_empty = answer.status == 416;
      if (!answer.success() && !is_empty) return explain(answer, name);
      const auto size = whole_size(answer);
      if (!size) {
        return Status::unavailable(
            fmt::format("{} does not say how large {} is", server_of(request.url), file.name),
            "fetch the file another way, and name its path");
      }
      file.size = *size;
      if (request.url != file.url) file.content_url = request.url;
      etag = answer.header("etag");
      if (!etag.starts_with("W/")) file.if_match = etag;
      return file;
    }
  }

  Status fetch(const std::vector<std::string>& names) {
    const fs::path folder = cache_.folder(source_.address);
    std::vector<FetchedFile> files;
    bool all_there = true;
    for (const std::string& name : names) {
      std::string etag;
      QUIRE_ASSIGN_OR_RETURN(RemoteFile remote, look_at(name, etag));
      const std::string version = sha256_hex(fmt::format("{} {}", etag, remote.size)).substr(0, 16);
      // A file of another version is none of what is wanted.
      const auto known = std::ranges::find(fetched_, name, &UrlCache::File::name);
      std::error_code error;
      const bool is_known = known != fetched_.end() && known->etag == etag &&
                            known->size == remote.size &&
                            fs::file_size(folder / name, error) == remote.size && !error;
      if (!is_known) {
        fs::remove(folder / name, error);
        all_there = false;
      }
      source_.files.push_back({.name = name, .etag = etag, .size = remote.size});
      FetchedFile& file = files.emplace_back();
      file.target = folder / name;
      file.partial = folder / fmt::format("{}.{}.incomplete", name, version);
      file.lock = folder / fmt::format("{}.lock", sha256_hex(name).substr(0, 16));
      file.explain = [this, name](const FetchAnswer& answer) { return explain(answer, name); };
      file.done = [] { return Status(); };
      file.remote = std::move(remote);
    }
    if (!all_there) {
      std::error_code error;
      fs::remove(folder / "source.json", error);
    }
    QUIRE_ASSIGN_OR_RETURN(const std::uint64_t bytes, fetch_files(files, transfers_, listener_));
    downloaded_ += bytes;
    return {};
  }

  // The names of a bucket's objects below the key.
  Result<std::vector<std::string>> list_objects() {
    const std::string prefix = model_.key + "/";
    std::vector<std::string> names;
    std::string next;
    for (std::size_t page = 0; page < kMaxPages; ++page) {
      FetchRequest request;
      // Signed as it stands: the parameters are in the order of their names.
      request.url = fmt::format("{}?{}{}{}list-type=2&prefix={}", bucket_url() + "/",
                                next.empty() ? "" : "continuation-token=", percent_encoded(next),
                                next.empty() ? "" : "&", percent_encoded(prefix));
      request.signing = settings_.signing;
      std::string body;
      QUIRE_ASSIGN_OR_RETURN(const FetchAnswer answer,
                             patient_request(transfers_, request, kMaxPageBytes, body, asking_));
      if (!answer.success()) return explain(answer, "list of objects");
      QUIRE_ASSIGN_OR_RETURN(S3Listing listing, read_s3_listing(body, server_of(request.url)));
      for (const std::string& key : listing.keys) {
        if (!key.starts_with(prefix) || key.ends_with('/')) continue;
        std::string name = key.substr(prefix.size());
        if (!stays_below(name)) {
          return Status::bad_model(
              fmt::format("{} has an object with the name {}, which is refused", source_.address,
                          printable(key)));
        }
        names.push_back(std::move(name));
      }
      next = std::move(listing.next);
      if (next.empty()) return names;
    }
    return Status::bad_model(
        fmt::format("{} has more than {} pages of objects", source_.address, kMaxPages));
  }

  Status fetch_folder() {
    QUIRE_ASSIGN_OR_RETURN(const auto names, list_objects());
    if (names.empty()) {
      return Status::not_found(fmt::format("{} has no objects", source_.address),
                               "check bucket and key");
    }
    QUIRE_ASSIGN_OR_RETURN(const FileChoice choice, choose_files(names, "", source_.address));
    QUIRE_RETURN_IF_ERROR(fetch(choice.files));
    if (!choice.index.empty()) {
      QUIRE_ASSIGN_OR_RETURN(
          const std::string json,
          read_file(cache_.folder(source_.address) / choice.index, kMaxShardIndexBytes));
      QUIRE_ASSIGN_OR_RETURN(const auto shards, shards_of_index(json, names, choice.index));
      QUIRE_RETURN_IF_ERROR(fetch(shards));
    }
    source_.open = choice.gguf;
    return {};
  }

  const ModelLocator& model_;
  const HubSettings& settings_;
  const PullListener& listener_;
  Transfers transfers_;
  DownloadListener asking_;
  UrlCache cache_;
  UrlCache::Source source_;
  std::vector<UrlCache::File> fetched_;
  std::uint64_t downloaded_ = 0;
};

}  // namespace

std::optional<fs::path> find_address(const ModelLocator& model, const HubSettings& settings) {
  const UrlCache cache(settings.url_cache);
  const auto source = cache.find(model.text());
  if (!source) return std::nullopt;
  return cache.folder(source->address) / source->open;
}

Result<PulledModel> pull_address(const ModelLocator& model, const HubSettings& settings,
                                 const PullListener& listener) {
  const UrlCache cache(settings.url_cache);
  auto known = cache.find(model.text());
  if (settings.offline) {
    if (!known) {
      return Status::not_found(
          fmt::format("HF_HUB_OFFLINE forbids to ask the network, and {} was not fetched before",
                      printable(model.text(), 300)),
          "unset it, or name a model that is here: quire list");
    }
    PulledModel pulled;
    pulled.path = cache.folder(known->address) / known->open;
    return pulled;
  }
  QUIRE_ASSIGN_OR_RETURN(Transfers transfers, Transfers::create());
  return AddressPull(model, settings, listener, std::move(transfers))
      .run(known ? std::move(known->files) : std::vector<UrlCache::File>());
}

Result<std::optional<fs::path>> pull_address_headers(const ModelLocator& model,
                                                     const HubSettings& settings,
                                                     const PullListener& listener,
                                                     const fs::path& folder) {
  QUIRE_ASSIGN_OR_RETURN(Transfers transfers, Transfers::create());
  return AddressPull(model, settings, listener, std::move(transfers)).run_headers(folder);
}

}  // namespace quire
