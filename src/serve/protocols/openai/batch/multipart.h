// Bodies of type multipart/form-data (RFC 7578), which is how files are uploaded. The parts are
// views into the body: nothing is copied, whatever the size of the file.
//
// Accepted is what clients send: quoted names, file names in UTF-8. Nested multiparts, transfer
// encodings and encoded names (filename*) are refused by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace quire {

struct MultipartPart {
  std::string name;
  bool has_filename = false;
  std::string filename;  // as the client gave it: never a path to open
  std::string_view data;
};

// The parts of `body`, whose type is `content_type`, in order; at most 32 of them. kInvalidArgument
// for anything that is not well formed, a body without its end included.
Result<std::vector<MultipartPart>> parse_multipart(std::string_view content_type,
                                                   std::string_view body);

// A client's name of a file as it may be shown and kept: without folders and control characters, at
// most 255 bytes, valid UTF-8. "upload" where nothing is left.
std::string sanitized_filename(std::string_view filename);

}  // namespace quire
