#include "hub/gguf_headers.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "hub/patient_request.h"
#include "hub/url.h"
#include "weights/gguf_header.h"

namespace quire {
namespace {

constexpr std::uint64_t kFirstHeaderBytes = 1U << 20;
constexpr std::uint64_t kMaxGgufHeaderBytes = 256U << 20;  // vocabularies need some ten
constexpr std::uint64_t kMaxSpecificationBytes = 1U << 20;

// Parts of one file on its server.
class RangeReader {
 public:
  RangeReader(const FetchedFile& file, Transfers& transfers, const DownloadListener& listener)
      : file_(file), remote_(file.remote), transfers_(transfers), listener_(listener) {}

  // [begin, end) of the file.
  Result<std::string> read(std::uint64_t begin, std::uint64_t end) {
    FetchRequest request = request_of(begin, end);
    if (!std::exchange(asked_, true)) QUIRE_RETURN_IF_ERROR(check_server(request, begin, end));
    std::string body;
    QUIRE_ASSIGN_OR_RETURN(const FetchAnswer answer,
                           patient_request(transfers_, request, end - begin, body, listener_));
    QUIRE_RETURN_IF_ERROR(check_answer(answer, begin, end));
    if (body.size() == end - begin) return body;
    return Status::unavailable(
        fmt::format("{}: the server sends another part than asked for", remote_.name),
        "try again later");
  }

 private:
  FetchRequest request_of(std::uint64_t begin, std::uint64_t end) const {
    FetchRequest request;
    request.url = remote_.content_url.empty() ? remote_.url : remote_.content_url;
    const bool to_origin = origin_of(request.url) == origin_of(remote_.url);
    if (to_origin && !remote_.token.empty()) {
      request.headers.push_back("Authorization: Bearer " + remote_.token);
    }
    if (request.url == remote_.url) request.signing = remote_.signing;
    if (!remote_.if_match.empty()) request.headers.push_back("If-Match: " + remote_.if_match);
    request.headers.push_back(fmt::format("Range: bytes={}-{}", begin, end - 1));
    return request;
  }

  // Before the first part: who knows no parts would send the whole file.
  Status check_server(FetchRequest request, std::uint64_t begin, std::uint64_t end) {
    request.head_by_get = true;
    std::string none;
    QUIRE_ASSIGN_OR_RETURN(const FetchAnswer answer,
                           patient_request(transfers_, request, 0, none, listener_));
    return check_answer(answer, begin, end);
  }

  Status check_answer(const FetchAnswer& answer, std::uint64_t begin, std::uint64_t end) const {
    const bool whole = begin == 0 && end == remote_.size;
    const std::string part = fmt::format("bytes {}-{}/{}", begin, end - 1, remote_.size);
    if (answer.status == 206 && answer.header("content-range") == part) return {};
    if (answer.status == 200 && whole) return {};
    if (!answer.success()) return file_.explain(answer);
    if (answer.status == 206) {
      return Status::bad_model(
          fmt::format("{}: asked for {}, {} sends {}", remote_.name, part, server_of(remote_.url),
                      answer.header("content-range").empty()
                          ? "a part without saying which"
                          : printable(answer.header("content-range"), 100)),
          "the file is damaged or has changed there: try again later, or tell who runs the server");
    }
    return Status::unimplemented(fmt::format("{} gives no parts of {}, only the whole file",
                                             server_of(remote_.url), remote_.name),
                                 "quire pull fetches it as a whole; a plan needs no network then");
  }

  const FetchedFile& file_;
  const RemoteFile& remote_;
  Transfers& transfers_;
  const DownloadListener& listener_;
  bool asked_ = false;
};

struct ReadHeader {
  std::string beginning;
  GgufHeader header;
};

Result<ReadHeader> read_whole_header(const RemoteFile& remote, RangeReader& reader,
                                     const PullListener& listener) {
  ReadHeader read;
  std::uint64_t end = std::min(remote.size, kFirstHeaderBytes);
  while (true) {
    if (end > read.beginning.size()) {
      QUIRE_ASSIGN_OR_RETURN(const std::string more, reader.read(read.beginning.size(), end));
      read.beginning += more;
    }
    listener.progress(remote.name, read.beginning.size(), read.beginning.size());
    const std::span<const char> bytes(read.beginning);
    QUIRE_ASSIGN_OR_RETURN(auto header,
                           read_gguf_header(std::as_bytes(bytes), remote.size, remote.name));
    if (header) {
      read.header = *std::move(header);
      return read;
    }
    if (end >= kMaxGgufHeaderBytes) {
      return Status::bad_model(
          fmt::format("{}: the header has more than {} bytes", remote.name, kMaxGgufHeaderBytes),
          "is it a model?");
    }
    end = std::min(remote.size, 2 * end);
  }
}

// Of `size` bytes with nothing in them but these parts.
Status write_with_holes(const std::filesystem::path& path, std::uint64_t size,
                        const std::vector<std::pair<std::uint64_t, std::string>>& parts) {
  std::ofstream file(path, std::ios::binary);
  for (const auto& [offset, bytes] : parts) {
    file.seekp(static_cast<std::streamoff>(offset));
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  file.close();
  std::error_code error;
  if (file) std::filesystem::resize_file(path, size, error);
  if (file && !error) return {};
  return Status::io_error(fmt::format("cannot write {}{}{}", path.string(), error ? ": " : "",
                                      error ? error.message() : ""),
                          "is there room in the folder for temporary files (TMPDIR)?");
}

Status fetch_header(const FetchedFile& file, Transfers& transfers, const PullListener& listener) {
  const RemoteFile& remote = file.remote;
  const DownloadListener asking = {
      .progress = [](std::uint64_t) {}, .cancelled = listener.cancelled, .note = listener.note};
  RangeReader reader(file, transfers, asking);
  QUIRE_ASSIGN_OR_RETURN(ReadHeader read, read_whole_header(remote, reader, listener));
  std::vector<std::pair<std::uint64_t, std::string>> parts;
  for (const auto& [offset, bytes] : read.header.specification) {
    if (bytes == 0 || bytes > kMaxSpecificationBytes) continue;
    QUIRE_ASSIGN_OR_RETURN(std::string numbers, reader.read(offset, offset + bytes));
    parts.emplace_back(offset, std::move(numbers));
  }
  read.beginning.resize(read.header.bytes);
  parts.emplace_back(0, std::move(read.beginning));
  return write_with_holes(file.target, remote.size, parts);
}

}  // namespace

Status fetch_gguf_headers(const std::vector<FetchedFile>& files, Transfers& transfers,
                          const PullListener& listener) {
  for (const FetchedFile& file : files) {
    QUIRE_RETURN_IF_ERROR(fetch_header(file, transfers, listener));
  }
  return {};
}

}  // namespace quire
