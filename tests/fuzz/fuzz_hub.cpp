// What servers say of models: lists of a bucket, indexes of safetensors, names of files, addresses.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "hub/file_choice.h"
#include "hub/model_locator.h"
#include "hub/s3_listing.h"
#include "hub/url.h"
#include "weights/hub_cache.h"

namespace {

std::vector<std::string> lines(std::string_view text) {
  std::vector<std::string> found;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    found.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return found;
}

void check(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)quire::read_s3_listing(text, "store");

  const std::vector<std::string> names = lines(text);
  for (const char* wanted : {"", "Q4_K_M"}) {
    const auto choice = quire::choose_files(names, wanted, "o/n");
    if (!choice.ok()) continue;
    for (const std::string& file : choice->files) {
      check(std::ranges::find(names, file) != names.end() || file == choice->index);
    }
  }
  const auto shards = quire::shards_of_index(text, {"a.safetensors", "b.safetensors"}, "index");
  if (shards.ok()) check(shards->size() <= 2);

  const std::string& first = names.front();
  const auto locator = quire::parse_model_locator(first);
  if (locator.ok() && locator->kind == quire::ModelLocator::Kind::kHub) {
    check(quire::is_hub_repo(locator->repo) && quire::stays_below(locator->revision));
    const auto again = quire::parse_model_locator(locator->text());
    check(again.ok() && again->text() == locator->text());
  }
  check(quire::percent_decoded(quire::percent_encoded(first)) == first);
  (void)quire::origin_of(first);
  return 0;
}
