// The Hugging Face hub's protocol: what a repository has, and where its files lie.
// https://huggingface.co/docs/hub/api
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "hub/hub_settings.h"
#include "hub/remote_file.h"
#include "hub/transfers.h"

namespace quire {

// A revision of a repository, as the hub describes it.
struct HubRevision {
  std::string commit;
  std::vector<std::string> files;  // each of which stays_below()
};

// One file of a revision; its etag names it in the cache.
struct HubFile {
  std::string etag;
  RemoteFile remote;
};

// Errors name the repository as "ORG/NAME" of the endpoint: kNotFound for a repository, revision or
// file that is not there, kConfig for one that asks for a token or for consent, kUnavailable for a
// hub that cannot be reached or has too much to do (tried again a few times), kBadModel for an
// answer that is none, kCancelled.
class HubSource {
 public:
  HubSource(const HubSettings& settings, Transfers& transfers, const DownloadListener& listener)
      : settings_(settings), transfers_(transfers), listener_(listener) {}

  Result<HubRevision> revision(const std::string& repo, const std::string& revision);
  Result<HubFile> file(const std::string& repo, const std::string& commit, const std::string& name);
  // What an answer to a request for `what` of `repo` means.
  Status explain(const FetchAnswer& answer, const std::string& repo, const std::string& what) const;

 private:
  // One request, again while the hub may have recovered.
  Result<FetchAnswer> ask(const FetchRequest& request, const std::string& repo,
                          const std::string& what, std::string& body);

  const HubSettings& settings_;
  Transfers& transfers_;
  const DownloadListener& listener_;
};

}  // namespace quire
