#include "hub/blob_download.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "hub/file_hash.h"
#include "hub/partial_file.h"
#include "hub/url.h"

namespace quire {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kPartBytes = 8ULL << 20;
constexpr std::size_t kConnections = 8;
constexpr int kMaxAttempts = 6;
constexpr int kMaxRedirects = 5;
constexpr double kFirstPause = 0.5;  // seconds; doubled from one attempt to the next
constexpr double kLongestPause = 60;

// A part of the file, in the order of which parts are written.
struct Part {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::string bytes;  // that came while parts before it were missing
  std::uint64_t received = 0;
  std::optional<Transfers::Id> transfer;
  std::string asked;          // the address of the request under way, or of the last one
  bool head_checked = false;  // of the answer that comes now
  Clock::time_point not_before{};

  bool done() const { return received == end - begin; }
};

class Download {
 public:
  Download(Transfers& transfers, const RemoteFile& file, PartialFile& partial,
           const ExplainAnswer& explain, const DownloadListener& listener)
      : transfers_(transfers),
        file_(file),
        partial_(partial),
        explain_(explain),
        listener_(listener),
        target_(file.content_url.empty() ? file.url : file.content_url),
        next_(partial.size()) {}

  Status run() {
    listener_.progress(partial_.size());
    Status status;
    while (status.ok() && partial_.size() < file_.size) {
      if (listener_.cancelled()) {
        status = Status(StatusCode::kCancelled, "interrupted",
                        "the same command goes on where this ended");
        break;
      }
      start_parts();
      if (auto finished = transfers_.wait(std::chrono::milliseconds(100))) {
        status = take(*finished);
      }
      if (!write_error_.ok()) status = write_error_;
    }
    transfers_.stop_all();
    return status;
  }

 private:
  void start_parts() {
    while (next_ < file_.size && parts_.size() < (whole_ ? 1 : kConnections)) {
      const std::uint64_t end = whole_ ? file_.size : std::min(file_.size, next_ + kPartBytes);
      Part& part = parts_.emplace_back();
      part.begin = next_;
      part.end = end;
      next_ = end;
    }
    const auto now = Clock::now();
    for (Part& part : parts_) {
      if (part.transfer || part.done() || now < part.not_before) continue;
      start(part);
    }
  }

  void start(Part& part) {
    FetchRequest request;
    request.url = target_;
    const bool to_origin = target_ == file_.url || origin_of(target_) == origin_of(file_.url);
    if (to_origin && !file_.token.empty()) {
      request.headers.push_back("Authorization: Bearer " + file_.token);
    }
    if (target_ == file_.url) request.signing = file_.signing;
    if (!file_.if_match.empty()) request.headers.push_back("If-Match: " + file_.if_match);
    if (!whole_) {
      request.headers.push_back(
          fmt::format("Range: bytes={}-{}", part.begin + part.received, part.end - 1));
    }
    part.asked = target_;
    part.head_checked = false;
    part.transfer = transfers_.start(
        request, [this, begin = part.begin](const FetchAnswer& answer, std::string_view bytes) {
          return take_bytes(begin, answer, bytes);
        });
  }

  // Whether an answer brings what was asked for.
  bool brings(const Part& part, const FetchAnswer& answer) {
    const bool asked_for_all = part.received == 0 && part.end - part.begin == file_.size;
    if (answer.status == 200) return whole_ || asked_for_all;
    if (answer.status != 206 || whole_) return false;
    const std::string expected =
        fmt::format("bytes {}-{}/{}", part.begin + part.received, part.end - 1, file_.size);
    return answer.header("content-range") == expected;
  }

  bool take_bytes(std::uint64_t begin, const FetchAnswer& answer, std::string_view bytes) {
    const auto part = std::ranges::find(parts_, begin, &Part::begin);
    if (!part->head_checked) {
      if (!brings(*part, answer)) return false;
      part->head_checked = true;
    }
    if (bytes.size() > part->end - part->begin - part->received) return false;
    part->received += bytes.size();
    progressed_ = true;
    if (part == parts_.begin()) {
      write_error_ = partial_.append(bytes);
      listener_.progress(partial_.size());
      return write_error_.ok();
    }
    part->bytes += bytes;
    return true;
  }

  Status take(const Transfers::Finished& finished) {
    const auto part = std::ranges::find_if(
        parts_, [&](const Part& each) { return each.transfer == finished.id; });
    if (part == parts_.end()) return {};  // of parts that were given up
    part->transfer.reset();
    if (part->done()) return write_parts();
    const FetchAnswer& answer = finished.answer;
    if (answer.status / 100 == 3) return redirect(*part, answer);
    if (answer.status == 200 && !whole_ && !part->head_checked) return take_as_one();
    const bool may_be_over = answer.status == 0 || answer.status == 408 || answer.status == 429 ||
                             answer.status >= 500 || answer.success();
    if (may_be_over) return try_again(*part, answer);
    // An address that a redirect led to is valid for a while only.
    if (part->asked != file_.url && (answer.status == 401 || answer.status == 403)) {
      target_ = file_.url;
      return try_again(*part, answer);
    }
    return explain_(answer);
  }

  // Writes the parts that nothing is missing before.
  Status write_parts() {
    while (!parts_.empty() && parts_.front().done()) {
      parts_.pop_front();
      if (parts_.empty()) break;
      QUIRE_RETURN_IF_ERROR(partial_.append(parts_.front().bytes));
      parts_.front().bytes = {};
      listener_.progress(partial_.size());
    }
    return {};
  }

  Status redirect(const Part& part, const FetchAnswer& answer) {
    if (part.asked != target_) return {};  // another part has been led there already
    const std::string origin = origin_of(answer.location);
    const bool safe = !origin.empty() &&
                      (origin.starts_with("https:") || origin_of(target_).starts_with("http:"));
    if (!safe || ++redirects_ > kMaxRedirects) {
      return Status::unavailable(
          fmt::format("{}: the server redirects {}", file_.name,
                      safe ? "without an end" : "to " + printable(answer.location, 300)),
          "this is the server's fault; try again later");
    }
    if (file_.signing) {
      return Status::unavailable(
          fmt::format("{}: the store redirects to {}", file_.name, printable(origin, 300)),
          "set AWS_REGION to the bucket's region, or AWS_ENDPOINT_URL to its server");
    }
    target_ = answer.location;
    return {};
  }

  // A server that does not know parts: everything from the beginning, over one connection.
  Status take_as_one() {
    transfers_.stop_all();
    whole_ = true;
    parts_.clear();
    QUIRE_RETURN_IF_ERROR(partial_.clear());
    next_ = 0;
    return {};
  }

  static std::string trouble(const Part& part, const FetchAnswer& answer) {
    if (answer.status != 0 && !answer.success()) {
      return fmt::format("the server answers {}", answer.status);
    }
    if (answer.success() && !part.head_checked)
      return "the server sends another part than asked for";
    return answer.error.empty() ? "the answer ended early" : answer.error;
  }

  Status try_again(Part& part, const FetchAnswer& answer) {
    if (std::exchange(progressed_, false)) {
      attempts_ = 0;
      redirects_ = 0;
    }
    const std::string why = trouble(part, answer);
    if (++attempts_ >= kMaxAttempts) {
      const Status status = answer.status >= 400 ? explain_(answer) : Status();
      if (!status.ok()) return status;
      return Status::unavailable(
          fmt::format("{}: {}, {} times in a row", file_.name, printable(why, 300), attempts_),
          "is the network there? the same command goes on where this ended");
    }
    double pause = std::min(kFirstPause * std::pow(2.0, attempts_ - 1), kLongestPause);
    pause = std::max(pause, std::min(answer.retry_after, kLongestPause));
    part.not_before = Clock::now() + std::chrono::milliseconds(std::llround(pause * 1000));
    listener_.note(
        fmt::format("{}: {}; again in {:.3g} s", file_.name, printable(why, 300), pause));
    if (whole_) {  // one that knows no parts begins from the beginning
      parts_.clear();
      next_ = 0;
      Part& all = parts_.emplace_back();
      all.end = next_ = file_.size;
      all.not_before = Clock::now() + std::chrono::milliseconds(std::llround(pause * 1000));
      return partial_.clear();
    }
    return {};
  }

  Transfers& transfers_;
  const RemoteFile& file_;
  PartialFile& partial_;
  const ExplainAnswer& explain_;
  const DownloadListener& listener_;
  std::string target_;       // where the content is asked for
  std::uint64_t next_;       // where the part that is not begun yet begins
  std::deque<Part> parts_;   // those begun, in order; the first is written as it comes
  bool whole_ = false;       // the server gives no parts
  bool progressed_ = false;  // bytes came since the last trouble
  int attempts_ = 0;
  int redirects_ = 0;
  Status write_error_;
};

}  // namespace

Status download(Transfers& transfers, const RemoteFile& file, const std::filesystem::path& partial,
                const ExplainAnswer& explain, const DownloadListener& listener) {
  auto hash = FileHash::expecting(file.hash_etag, file.size);
  QUIRE_ASSIGN_OR_RETURN(PartialFile target,
                         PartialFile::open(partial, file.size, std::move(hash)));
  bool taken_over = target.size() > 0;
  while (true) {
    QUIRE_RETURN_IF_ERROR(Download(transfers, file, target, explain, listener).run());
    if (target.matches()) return target.sync();
    QUIRE_RETURN_IF_ERROR(target.clear());
    if (!std::exchange(taken_over, false)) break;
    listener.note(fmt::format("{}: what was there already is none of it; again from its beginning",
                              file.name));
  }
  std::error_code error;
  std::filesystem::remove(partial, error);
  return Status::io_error(
      fmt::format("{}: what came has another hash than the server says, {}", file.name,
                  file.hash_etag),
      "it is removed; pull again, and if that does not help ask who runs the server or a proxy");
}

}  // namespace quire
