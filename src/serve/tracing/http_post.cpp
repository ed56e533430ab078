#include "serve/tracing/http_post.h"

#include <algorithm>
#include <array>
#include <curl/curl.h>
#include <utility>

#include <fmt/format.h>

namespace quire {
namespace {

constexpr std::size_t kMaxAnswerBytes = 64 * 1024;
constexpr int kPollMs = 50;

struct EasyDeleter {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct MultiDeleter {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};
struct ListDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using HeaderList = std::unique_ptr<curl_slist, ListDeleter>;

void append(HeaderList& list, const std::string& line) {
  if (curl_slist* longer = curl_slist_append(list.get(), line.c_str())) {
    (void)list.release();
    list.reset(longer);
  }
}

std::size_t take_body(char* bytes, std::size_t /*one*/, std::size_t count, void* user) {
  auto& body = *static_cast<std::string*>(user);
  body.append(bytes, std::min(count, kMaxAnswerBytes - body.size()));
  return count;
}

class CurlPost final : public HttpPost {
 public:
  // False where libcurl cannot start.
  bool open(const std::string& url, const std::vector<HttpHeader>& headers,
            std::chrono::milliseconds timeout) {
    if (easy_ == nullptr || multi_ == nullptr) return false;
    append(headers_, "Content-Type: application/json");
    append(headers_, "Expect:");  // no waiting for a "100 Continue"
    for (const HttpHeader& header : headers) {
      append(headers_, header.value.empty() ? header.name + ";"
                                            : fmt::format("{}: {}", header.name, header.value));
    }
    CURL* easy = easy_.get();
    curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "quire");
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(timeout.count()));
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers_.get());
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, reason_.data());
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &take_body);
    return true;
  }

  PostResult post(const std::string& body, const std::function<bool()>& give_up) override {
    PostResult result;
    reason_[0] = '\0';
    CURL* easy = easy_.get();
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body.data());
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &result.body);
    const std::string error = perform(give_up);
    if (!error.empty()) {
      result.error = error;
      return result;
    }
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    result.status = static_cast<int>(status);
    curl_off_t seconds = 0;
    curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &seconds);  // a number or a date
    if (seconds > 0) result.retry_after = std::chrono::seconds(seconds);
    return result;
  }

 private:
  // Runs the prepared request; empty, or why there is no answer.
  std::string perform(const std::function<bool()>& give_up) {
    curl_multi_add_handle(multi_.get(), easy_.get());
    int running = 1;
    bool given_up = false;
    CURLMcode error = CURLM_OK;
    while (running > 0 && error == CURLM_OK && !given_up) {
      error = curl_multi_perform(multi_.get(), &running);
      if (error == CURLM_OK && running > 0) {
        error = curl_multi_poll(multi_.get(), nullptr, 0, kPollMs, nullptr);
      }
      given_up = give_up();
    }
    CURLcode result = CURLE_OK;
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_.get(), &left)) {
      if (message->msg == CURLMSG_DONE) result = message->data.result;
    }
    curl_multi_remove_handle(multi_.get(), easy_.get());
    if (error != CURLM_OK) return curl_multi_strerror(error);
    if (running > 0) return "no answer until the end";
    if (result == CURLE_OK) return {};
    return reason_[0] != '\0' ? reason_.data() : curl_easy_strerror(result);
  }

  HeaderList headers_;
  std::array<char, CURL_ERROR_SIZE> reason_{};
  std::unique_ptr<CURLM, MultiDeleter> multi_{curl_multi_init()};
  std::unique_ptr<CURL, EasyDeleter> easy_{curl_easy_init()};
};

}  // namespace

Result<std::unique_ptr<HttpPost>> make_http_post(const std::string& url,
                                                 const std::vector<HttpHeader>& headers,
                                                 std::chrono::milliseconds timeout) {
  auto post = std::make_unique<CurlPost>();
  if (!post->open(url, headers, timeout)) return Status::internal("libcurl cannot start");
  return std::unique_ptr<HttpPost>(std::move(post));
}

}  // namespace quire
