#include "apps/output_file.h"

#include <cerrno>
#include <fcntl.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "apps/terminal.h"

namespace quire {
namespace {

std::string_view remedy_of(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "make room on the disk";
    case EPIPE:
      return "whatever was reading has ended";
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
      return "check the path";
    default:
      return "";
  }
}

}  // namespace

Status OutputFile::error(std::string_view action) const {
  const int code = errno;
  return Status::io_error(
      fmt::format("cannot {} {}: {}", action, name_, std::generic_category().message(code)),
      std::string(remedy_of(code)));
}

Result<OutputFile> OutputFile::create(const std::string& path) {
  if (path == "-") return OutputFile(STDOUT_FILENO, "standard output");
  OutputFile file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666), path);
  if (file.descriptor_ < 0) return file.error("write");
  return file;
}

Result<OutputFile> OutputFile::append(const std::string& path, std::uint64_t keep_bytes) {
  OutputFile file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666), path);
  if (file.descriptor_ < 0) return file.error("write");
  if (::ftruncate(file.descriptor_, static_cast<off_t>(keep_bytes)) != 0) {
    return file.error("shorten");
  }
  if (::lseek(file.descriptor_, 0, SEEK_END) < 0) return file.error("append to");
  return file;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), name_(std::move(other.name_)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(name_, other.name_);
  return *this;
}

OutputFile::~OutputFile() {
  if (descriptor_ > STDERR_FILENO) ::close(descriptor_);
}

Status OutputFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0) {
      if (errno == EINTR) continue;
      return error("write to");
    }
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

Status OutputFile::write_text(std::string_view text) {
  return ::isatty(descriptor_) != 0 ? write(without_control_characters(text)) : write(text);
}

Status OutputFile::close() {
  if (descriptor_ <= STDERR_FILENO) return {};
  const int descriptor = std::exchange(descriptor_, -1);
  return ::close(descriptor) == 0 ? Status() : error("close");
}

}  // namespace quire
