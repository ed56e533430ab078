// Where results go. A write has reached the system when it returns, so that what was reported as
// written is there after a crash of the program, and what could not be written is an error at the
// record that it concerns: a full disk, a reader that went away.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace quire {

class OutputFile {
 public:
  // Opens `path` empty, or standard output for "-". kIoError with the system's reason.
  static Result<OutputFile> create(const std::string& path);
  // Opens `path` to append after its first `keep_bytes`; what follows those is cut off.
  static Result<OutputFile> append(const std::string& path, std::uint64_t keep_bytes);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  // Writes all of `bytes`; kIoError naming the file and the reason. Not for two threads at once.
  Status write(std::string_view bytes);
  // The same for text that a model, a file or a server gives: whole characters. A terminal gets
  // their control characters as \xNN (newlines and tabs aside), for they could steer it; anything
  // else gets the text as it is.
  Status write_text(std::string_view text);
  // Closes the file; some file systems report only here what they could not store.
  Status close();

 private:
  OutputFile(int descriptor, std::string name) : descriptor_(descriptor), name_(std::move(name)) {}

  Status error(std::string_view action) const;

  int descriptor_ = -1;
  std::string name_;
};

}  // namespace quire
