#include "hub/transfers.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <curl/curl.h>
#include <utility>

#include <fmt/format.h>

namespace quire {
namespace {

constexpr long kConnectTimeoutMs = 10'000;
constexpr long kSlowBytesPerSecond = 128;  // a transfer below this for so long is given up
constexpr long kSlowSeconds = 30;
constexpr std::size_t kMaxHeaderBytes = 64 * 1024;
constexpr std::size_t kMaxErrorBytes = 64 * 1024;
constexpr double kMaxRetryAfter = 24 * 3600;

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

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return static_cast<unsigned char>(c) <= ' '; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// One request under way.
struct Transfer {
  Transfers::Id id = 0;
  std::unique_ptr<CURL, EasyDeleter> easy;
  HeaderList headers;
  std::array<char, CURL_ERROR_SIZE> reason{};
  Transfers::OnBytes on_bytes;
  FetchAnswer answer;
  std::size_t header_bytes = 0;
  bool head_only = false;
};

std::size_t take_header(char* bytes, std::size_t /*one*/, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string_view line(bytes, count);
  if (line.starts_with("HTTP/")) {  // of the answer, behind those of a "100 Continue" or a proxy
    transfer.answer.headers.clear();
    return count;
  }
  transfer.header_bytes += count;
  if (transfer.header_bytes > kMaxHeaderBytes) return 0;
  const std::size_t colon = line.find(':');
  if (colon == line.npos) return count;
  std::string name(line.substr(0, colon));
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  transfer.answer.headers[name] = trimmed(line.substr(colon + 1));
  return count;
}

std::size_t take_body(char* bytes, std::size_t /*one*/, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  FetchAnswer& answer = transfer.answer;
  long status = 0;
  curl_easy_getinfo(transfer.easy.get(), CURLINFO_RESPONSE_CODE, &status);
  answer.status = static_cast<int>(status);
  if (answer.success() && transfer.head_only) return 0;  // the transfer ends here
  if (answer.success()) return transfer.on_bytes(answer, {bytes, count}) ? count : 0;
  answer.body.append(bytes, std::min(count, kMaxErrorBytes - answer.body.size()));
  return count;
}

void sign(CURL* easy, const AwsSigning& signing, HeaderList& headers) {
  const std::string way = fmt::format("aws:amz:{}:s3", signing.region);
  const std::string keys = signing.access_key + ":" + signing.secret_key;
  curl_easy_setopt(easy, CURLOPT_AWS_SIGV4, way.c_str());  // libcurl copies these
  curl_easy_setopt(easy, CURLOPT_USERPWD, keys.c_str());
  // What S3 signs of a request without a body: it is empty.
  append(headers,
         "x-amz-content-sha256: "
         "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  if (!signing.session_token.empty()) {
    append(headers, "x-amz-security-token: " + signing.session_token);
  }
}

void prepare(Transfer& transfer, const FetchRequest& request) {
  CURL* easy = transfer.easy.get();
  curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  // Parts of a file come over connections of their own, not in turns over one.
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "quire");
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, kConnectTimeoutMs);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, kSlowBytesPerSecond);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, kSlowSeconds);
  if (const char* bundle = std::getenv("SSL_CERT_FILE"); bundle != nullptr && *bundle != '\0') {
    curl_easy_setopt(easy, CURLOPT_CAINFO, bundle);
  }
  if (request.head) curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
  append(transfer.headers, "Accept-Encoding: identity");  // sizes and hashes are the file's own
  for (const std::string& header : request.headers) append(transfer.headers, header);
  if (request.signing) sign(easy, *request.signing, transfer.headers);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer.headers.get());
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer.reason.data());
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &take_header);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &take_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
}

// Fills in what libcurl knows of an answer at its end.
void conclude(Transfer& transfer, CURLcode result) {
  FetchAnswer& answer = transfer.answer;
  CURL* easy = transfer.easy.get();
  long status = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  answer.status = static_cast<int>(status);
  char* location = nullptr;
  curl_easy_getinfo(easy, CURLINFO_REDIRECT_URL, &location);
  if (location != nullptr) answer.location = location;
  curl_off_t seconds = 0;
  curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &seconds);  // a number or a date
  answer.retry_after = std::clamp(static_cast<double>(seconds), 0.0, kMaxRetryAfter);
  if (result != CURLE_OK) {
    answer.error = transfer.reason[0] != '\0' ? transfer.reason.data() : curl_easy_strerror(result);
  }
}

// Whether a transfer ended because its head was enough.
bool had_head(const Transfer& transfer, CURLcode result) {
  return transfer.head_only && result == CURLE_WRITE_ERROR && transfer.answer.success();
}

}  // namespace

std::string_view FetchAnswer::header(std::string_view name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : found->second;
}

struct Transfers::Impl {
  std::unique_ptr<CURLM, MultiDeleter> multi{curl_multi_init()};
  std::map<CURL*, std::unique_ptr<Transfer>> running;
  Id next_id = 1;

  ~Impl() { stop(); }

  void stop() {
    for (const auto& [easy, transfer] : running) curl_multi_remove_handle(multi.get(), easy);
    running.clear();
  }

  std::optional<Finished> take_finished() {
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi.get(), &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      CURL* easy = message->easy_handle;
      const CURLcode result = message->data.result;
      const auto found = running.find(easy);
      conclude(*found->second, result);
      Finished finished;
      finished.id = found->second->id;
      finished.complete = result == CURLE_OK || had_head(*found->second, result);
      finished.answer = std::move(found->second->answer);
      curl_multi_remove_handle(multi.get(), easy);
      running.erase(found);
      return finished;
    }
    return std::nullopt;
  }
};

Transfers::Transfers(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Transfers::Transfers(Transfers&&) noexcept = default;
Transfers& Transfers::operator=(Transfers&&) noexcept = default;
Transfers::~Transfers() = default;

Result<Transfers> Transfers::create() {
  auto impl = std::make_unique<Impl>();
  if (impl->multi == nullptr) return Status::internal("libcurl cannot start");
  return Transfers(std::move(impl));
}

Transfers::Id Transfers::start(const FetchRequest& request, OnBytes on_bytes) {
  auto transfer = std::make_unique<Transfer>();
  transfer->id = impl_->next_id++;
  transfer->on_bytes = std::move(on_bytes);
  transfer->head_only = request.head_by_get;
  transfer->easy.reset(curl_easy_init());
  const Id id = transfer->id;
  CURL* easy = transfer->easy.get();
  if (easy == nullptr) throw std::bad_alloc();
  prepare(*transfer, request);
  curl_multi_add_handle(impl_->multi.get(), easy);
  impl_->running.emplace(easy, std::move(transfer));
  return id;
}

void Transfers::stop_all() { impl_->stop(); }

std::optional<Transfers::Finished> Transfers::wait(std::chrono::milliseconds timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (true) {
    int running = 0;
    curl_multi_perform(impl_->multi.get(), &running);
    if (auto finished = impl_->take_finished()) return finished;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return std::nullopt;
    curl_multi_poll(impl_->multi.get(), nullptr, 0, static_cast<int>(left.count()), nullptr);
  }
}

Transfers::Finished Transfers::run(const FetchRequest& request, std::size_t max_bytes,
                                   std::string& body, const std::function<bool()>& cancelled) {
  bool too_long = false;
  const Id id = start(request, [&](const FetchAnswer&, std::string_view bytes) {
    too_long = bytes.size() > max_bytes - body.size();
    if (!too_long) body += bytes;
    return !too_long;
  });
  while (!cancelled()) {
    auto finished = wait(std::chrono::milliseconds(100));
    if (!finished || finished->id != id) continue;
    finished->too_long = too_long;
    return *std::move(finished);
  }
  stop_all();
  Finished stopped;
  stopped.id = id;
  stopped.answer.error = "interrupted";
  return stopped;
}

}  // namespace quire
