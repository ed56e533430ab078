// `quire serve` as a process of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

#include "base/status.h"

namespace quire::load {

class ServerProcess {
 public:
  // Starts `program serve --model MODEL` with more `arguments`, on a free port of 127.0.0.1, and
  // waits until it answers. Its log and its database of batches lie in a folder of their own.
  static Result<std::unique_ptr<ServerProcess>> start(const std::string& program,
                                                      const std::string& model,
                                                      const std::vector<std::string>& arguments);
  ~ServerProcess();  // kills it, unless it has ended, and removes the folder
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  std::uint16_t port() const { return port_; }
  std::string id() const { return std::to_string(process_); }

  // Tells it to end in good order and waits for that. An error where it ends otherwise.
  Status stop();

 private:
  ServerProcess() = default;
  Status spawn(const std::string& program, const std::string& model,
               const std::vector<std::string>& arguments);
  Status wait_until_it_serves();
  bool has_ended();
  Status unexpected_end() const;
  std::filesystem::path log_path() const { return folder_ / "log"; }

  std::filesystem::path folder_;
  pid_t process_ = 0;  // 0: none
  int wait_status_ = 0;
  std::uint16_t port_ = 0;
};

}  // namespace quire::load
