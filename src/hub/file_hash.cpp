#include "hub/file_hash.h"

#include <algorithm>
#include <array>
#include <openssl/evp.h>
#include <utility>

#include <fmt/format.h>

namespace quire {
namespace {

constexpr std::size_t kSha1Digits = 40;
constexpr std::size_t kSha256Digits = 64;

struct DigestDeleter {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Digest = std::unique_ptr<EVP_MD_CTX, DigestDeleter>;

std::string finish(EVP_MD_CTX* context) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned size = 0;
  EVP_DigestFinal_ex(context, bytes.data(), &size);
  std::string digits;
  for (unsigned i = 0; i < size; ++i) digits += fmt::format("{:02x}", unsigned{bytes[i]});
  return digits;
}

}  // namespace

struct FileHash::Impl {
  std::string expected;
  std::uint64_t size = 0;
  Digest context{EVP_MD_CTX_new()};
};

FileHash::FileHash(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) { restart(); }
FileHash::FileHash(FileHash&&) noexcept = default;
FileHash& FileHash::operator=(FileHash&&) noexcept = default;
FileHash::~FileHash() = default;

std::optional<FileHash> FileHash::expecting(std::string_view etag, std::uint64_t size) {
  const bool is_hex = std::ranges::all_of(
      etag, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (!is_hex || (etag.size() != kSha1Digits && etag.size() != kSha256Digits)) return std::nullopt;
  auto impl = std::make_unique<Impl>();
  impl->expected = etag;
  impl->size = size;
  return FileHash(std::move(impl));
}

void FileHash::restart() {
  const bool is_git = impl_->expected.size() == kSha1Digits;
  EVP_DigestInit_ex(impl_->context.get(), is_git ? EVP_sha1() : EVP_sha256(), nullptr);
  if (is_git) {
    add(fmt::format("blob {}", impl_->size));
    add(std::string_view("", 1));
  }
}

void FileHash::add(std::string_view bytes) {
  EVP_DigestUpdate(impl_->context.get(), bytes.data(), bytes.size());
}

bool FileHash::matches() { return finish(impl_->context.get()) == impl_->expected; }

std::string sha256_hex(std::string_view text) {
  const Digest context(EVP_MD_CTX_new());
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  EVP_DigestUpdate(context.get(), text.data(), text.size());
  return finish(context.get());
}

}  // namespace quire
