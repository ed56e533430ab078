#include "hub/patient_request.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "base/printable.h"
#include "hub/url.h"

namespace quire {
namespace {

constexpr int kMaxTries = 5;        // of a server that is busy
constexpr int kMaxSilentTries = 3;  // of one that does not answer
constexpr double kShortestWait = 0.5;
constexpr double kLongestWait = 60;

Status cancelled_status() { return {StatusCode::kCancelled, "interrupted"}; }

// False where the user does not want to wait any more.
bool wait_for(double seconds, const DownloadListener& listener) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    if (listener.cancelled()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return true;
}

}  // namespace

Result<FetchAnswer> patient_request(Transfers& transfers, const FetchRequest& request,
                                    std::size_t max_bytes, std::string& body,
                                    const DownloadListener& listener) {
  double pause = kShortestWait;
  for (int tries = 1;; ++tries) {
    body.clear();
    const Transfers::Finished finished =
        transfers.run(request, max_bytes, body, listener.cancelled);
    if (listener.cancelled()) return cancelled_status();
    const FetchAnswer& answer = finished.answer;
    const std::string server = server_of(request.url);
    if (finished.too_long) {
      return Status::bad_model(fmt::format("{} answers with more than {} bytes", server, max_bytes),
                               "is that the server you mean?");
    }
    const bool came = answer.status != 0 && (finished.complete || !answer.success());
    const bool busy = answer.status == 429 || answer.status >= 500;
    if (came && !busy) return answer;
    if (tries == (came ? kMaxTries : kMaxSilentTries)) {
      if (came) return answer;
      return Status::unavailable(
          fmt::format("{} does not answer: {}", server, printable(answer.error, 300)),
          "is the network there? Without one, HF_HUB_OFFLINE=1 uses what is in the cache");
    }
    const double wait = std::max(pause, std::min(answer.retry_after, kLongestWait));
    listener.note(fmt::format(
        "{}: {}; again in {:.3g} s", server,
        came ? fmt::format("answers {}", answer.status) : printable(answer.error, 300), wait));
    if (!wait_for(wait, listener)) return cancelled_status();
    pause = std::min(pause * 2, kLongestWait);
  }
}

}  // namespace quire
