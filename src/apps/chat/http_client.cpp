#include "apps/chat/http_client.h"

#include <algorithm>
#include <array>
#include <curl/curl.h>

#include <fmt/format.h>

#include "apps/error_message.h"
#include "base/json.h"
#include "base/printable.h"

namespace quire {
namespace {

constexpr long kConnectTimeoutMs = 10'000;
constexpr long kSilenceSeconds = 600;
constexpr std::size_t kMaxErrorBytes = 64 * 1024;
constexpr std::size_t kMaxShownBytes = 1000;

struct EasyDeleter {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct MultiDeleter {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};
struct ListDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using Headers = std::unique_ptr<curl_slist, ListDeleter>;

void add_header(Headers& headers, const std::string& line) {
  curl_slist* longer = curl_slist_append(headers.get(), line.c_str());
  if (longer == nullptr) return;  // out of memory: the request fails for want of it
  (void)headers.release();
  headers.reset(longer);
}

Status refusal(long status, const std::string& body) {
  std::optional<std::string> message;
  if (const auto value = parse_json(body, "answer"); value.ok()) message = error_message(*value);
  const std::string text = fmt::format("the server answered {}: {}", status,
                                       printable(message.value_or(body), kMaxShownBytes));
  if (status == 401 || status == 403) {
    return Status::invalid_argument(text, "give its key with --api-key");
  }
  if (status == 404) return Status::not_found(text, "check --base-url and --model-name");
  if (status == 429 || status >= 500) return Status::unavailable(text, "try again later");
  return Status::invalid_argument(text);
}

// What curl's callback needs of the request under way.
struct Transfer {
  CURL* easy = nullptr;
  const HttpClient::OnBody* on_body = nullptr;
  std::string error_body;
  Status status;

  long response_code() const {
    long code = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &code);
    return code;
  }
  bool accepted() const { return response_code() / 100 == 2; }
};

std::size_t take_body(char* bytes, std::size_t /*one*/, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string_view piece(bytes, count);
  if (transfer.accepted()) {
    transfer.status = (*transfer.on_body)(piece);
    return transfer.status.ok() ? count : 0;
  }
  const std::size_t room = kMaxErrorBytes - transfer.error_body.size();
  transfer.error_body += piece.substr(0, std::min(room, count));
  return count;
}

}  // namespace

struct HttpClient::Impl {
  std::string base_url;
  std::string authorization;  // the header's line, or empty
  std::unique_ptr<CURLM, MultiDeleter> multi{curl_multi_init()};
  std::unique_ptr<CURL, EasyDeleter> easy{curl_easy_init()};

  // Runs the prepared request to its end, or until a stop.
  Status perform(std::stop_token stop, const Transfer& transfer, const char* reason) {
    curl_multi_add_handle(multi.get(), easy.get());
    const std::stop_callback waking(stop, [this] { curl_multi_wakeup(multi.get()); });
    int running = 1;
    CURLMcode error = CURLM_OK;
    while (running > 0 && error == CURLM_OK && !stop.stop_requested()) {
      error = curl_multi_perform(multi.get(), &running);
      if (error == CURLM_OK && running > 0) {
        error = curl_multi_poll(multi.get(), nullptr, 0, 1000, nullptr);
      }
    }
    CURLcode result = CURLE_OK;
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi.get(), &left)) {
      if (message->msg == CURLMSG_DONE) result = message->data.result;
    }
    curl_multi_remove_handle(multi.get(), easy.get());
    if (running > 0 && stop.stop_requested()) return {StatusCode::kCancelled, "stopped"};
    if (!transfer.status.ok()) return transfer.status;
    if (error != CURLM_OK) return Status::unavailable(curl_multi_strerror(error));
    if (result == CURLE_OK) return {};
    const std::string_view why = *reason != '\0' ? reason : curl_easy_strerror(result);
    return Status::unavailable(fmt::format("{}: {}", base_url, why),
                               "is the server running, and is this its address?");
  }
};

HttpClient::HttpClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;
HttpClient::~HttpClient() = default;

const std::string& HttpClient::base_url() const { return impl_->base_url; }

Result<HttpClient> HttpClient::create(std::string base_url, const std::string& api_key,
                                      std::string_view root) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7F; };
  if (base_url.empty() || std::ranges::any_of(base_url, is_control)) {
    return Status::invalid_argument(fmt::format("\"{}\" is no address", printable(base_url)),
                                    "give one like http://localhost:8000");
  }
  if (std::ranges::any_of(api_key, is_control)) {
    return Status::invalid_argument("the key has spaces or control characters in it",
                                    "check --api-key");
  }
  if (base_url.find("://") == std::string::npos) base_url = "http://" + base_url;
  if (!base_url.starts_with("http://") && !base_url.starts_with("https://")) {
    return Status::invalid_argument(fmt::format("{}: not an HTTP address", printable(base_url)),
                                    "give one like http://localhost:8000");
  }
  while (base_url.ends_with('/')) base_url.pop_back();
  constexpr std::string_view kApi = "/v1";
  if (base_url.ends_with(kApi)) base_url.resize(base_url.size() - kApi.size());
  base_url += root;
  auto impl = std::make_unique<Impl>();
  if (impl->easy == nullptr || impl->multi == nullptr) {
    return Status::internal("libcurl does not start");
  }
  impl->base_url = std::move(base_url);
  if (!api_key.empty()) impl->authorization = "Authorization: Bearer " + api_key;
  return HttpClient(std::move(impl));
}

Status HttpClient::request(const std::string& path, const std::optional<std::string>& json,
                           const OnBody& on_body, std::stop_token stop) {
  CURL* easy = impl_->easy.get();
  curl_easy_reset(easy);
  std::array<char, CURL_ERROR_SIZE> reason{};
  const std::string url = impl_->base_url + path;
  Transfer transfer = {.easy = easy, .on_body = &on_body, .error_body = {}, .status = {}};
  Headers headers;
  if (!impl_->authorization.empty()) add_header(headers, impl_->authorization);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, reason.data());
  curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "quire");
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, kConnectTimeoutMs);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, kSilenceSeconds);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &take_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
  if (json) {
    add_header(headers, "Content-Type: application/json");
    add_header(headers, "Expect:");  // no asking first whether a body may come
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(json->size()));
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, json->c_str());
  }
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers.get());
  const Status status = impl_->perform(std::move(stop), transfer, reason.data());
  const bool refused = status.ok() && !transfer.accepted();
  Status result = refused ? refusal(transfer.response_code(), transfer.error_body) : status;
  curl_easy_reset(easy);  // it must not point to what ends here
  return result;
}

}  // namespace quire
