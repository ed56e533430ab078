// What a bucket says of its objects.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace quire {

struct S3Listing {
  std::vector<std::string> keys;
  std::string next;  // names the next page; empty: this was the last
};

// Reads the answer to ListObjectsV2 (docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2), of
// which one page has 1000 objects. `where` names the store in errors. kBadModel for anything else.
Result<S3Listing> read_s3_listing(std::string_view xml, std::string_view where);

// The text of the first <name> in `xml`, with entities replaced; empty where there is none.
std::string xml_text(std::string_view xml, std::string_view name);

}  // namespace quire
