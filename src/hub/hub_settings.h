// Where models come from and go to, as the environment says: the names that users of Hugging Face's
// tools, and of S3, know.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/status.h"
#include "hub/transfers.h"

namespace quire {

struct HubSettings {
  std::string endpoint = "https://huggingface.co";  // $HF_ENDPOINT; no slash at its end
  std::string token;                // $HF_TOKEN, else the file $HF_TOKEN_PATH ($HF_HOME/token)
  bool offline = false;             // $HF_HUB_OFFLINE or $TRANSFORMERS_OFFLINE
  std::filesystem::path cache;      // hub_cache_root()
  std::filesystem::path url_cache;  // of what is no hub's: $XDG_CACHE_HOME/quire/models

  // $AWS_ACCESS_KEY_ID, $AWS_SECRET_ACCESS_KEY, $AWS_SESSION_TOKEN; nullopt: requests are
  // anonymous.
  std::optional<AwsSigning> signing;
  std::string s3_region = "us-east-1";  // $AWS_REGION, else $AWS_DEFAULT_REGION
  std::string s3_endpoint;  // $AWS_ENDPOINT_URL_S3, else $AWS_ENDPOINT_URL; empty: Amazon's own
};

// kConfig for values that make no sense: an endpoint that is no address, a token with control
// characters, one key of two.
Result<HubSettings> hub_settings_from_environment();

}  // namespace quire
