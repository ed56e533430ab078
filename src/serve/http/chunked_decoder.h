// The chunked transfer coding of HTTP/1.1 (RFC 9112, section 7.1), to the letter: a size that
// another reader might take for another one is an error, for then two readers would disagree about
// where a request ends. Beast's own reader passes over what stands behind the digits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace quire {

class ChunkedDecoder {
 public:
  // Takes bytes in, appends those of the body to `body`, and returns how many were used: all, but
  // at the end and after an error.
  std::size_t feed(std::string_view bytes, std::string& body);

  bool done() const { return state_ == State::kDone; }
  bool failed() const { return state_ == State::kFailed; }

 private:
  enum class State {
    kSize,       // hexadecimal digits
    kExtension,  // behind ';', up to the line's end
    kSizeEnd,    // the line feed behind a size
    kData,
    kDataEnd,  // the carriage return behind a chunk's data
    kDataLineFeed,
    kTrailer,  // lines behind the last chunk, which are passed over
    kTrailerEnd,
    kDone,
    kFailed,
  };

  void take(char c);
  void take_size(char c);
  void end_size();

  static constexpr int kMaxDigits = 12;
  static constexpr int kMaxLineBytes = 4096;  // of an extension, or of all trailers

  State state_ = State::kSize;
  std::uint64_t size_ = 0;  // of the chunk; while its data come: what is left
  int num_digits_ = 0;
  int line_bytes_ = 0;
  bool line_empty_ = true;
};

}  // namespace quire
