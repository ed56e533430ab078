#include "serve_load/server_process.h"

#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <spawn.h>
#include <string_view>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>

#include "base/file.h"

namespace quire::load {
namespace {

constexpr std::uint64_t kMaxLogBytes = 1 << 20;
constexpr std::chrono::milliseconds kPause(20);
constexpr std::chrono::minutes kPatience(5);  // for a large model to be loaded, or requests to end

// The port in "... serving NAME on http://127.0.0.1:PORT", 0 where the line is not there.
std::uint16_t port_in(std::string_view log) {
  constexpr std::string_view kBefore = " on http://127.0.0.1:";
  const std::size_t at = log.find(kBefore);
  std::uint16_t port = 0;
  if (at == std::string_view::npos || log.find('\n', at) == std::string_view::npos) return 0;
  const char* const first = log.data() + at + kBefore.size();
  std::from_chars(first, log.data() + log.size(), port);
  return port;
}

}  // namespace

Result<std::unique_ptr<ServerProcess>> ServerProcess::start(
    const std::string& program, const std::string& model,
    const std::vector<std::string>& arguments) {
  std::unique_ptr<ServerProcess> server(new ServerProcess());
  std::string folder = std::filesystem::temp_directory_path() / "serve_load_XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) {
    return Status::io_error(fmt::format("cannot make the folder {}: {}", folder,
                                        std::generic_category().message(errno)));
  }
  server->folder_ = folder;
  QUIRE_RETURN_IF_ERROR(server->spawn(program, model, arguments));
  QUIRE_RETURN_IF_ERROR(server->wait_until_it_serves());
  return server;
}

Status ServerProcess::spawn(const std::string& program, const std::string& model,
                            const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {program,
                                    "serve",
                                    "--model",
                                    model,
                                    "--port",
                                    "0",
                                    "--no-log-requests",
                                    "--batch-database",
                                    folder_ / "batches.sqlite3"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log_path().c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND, S_IRUSR | S_IWUSR);
  pid_t process = 0;
  const int error =
      ::posix_spawnp(&process, program.c_str(), &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return Status::not_found(
        fmt::format("cannot start {}: {}", program, std::generic_category().message(error)),
        "give the path of the program quire");
  }
  process_ = process;
  return {};
}

Status ServerProcess::wait_until_it_serves() {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    if (has_ended()) return unexpected_end();
    QUIRE_ASSIGN_OR_RETURN(const std::string log, read_file(log_path(), kMaxLogBytes));
    port_ = port_in(log);
    if (port_ != 0) return {};
    std::this_thread::sleep_for(kPause);
  }
  return Status::unavailable(
      fmt::format("the server does not serve after {} minutes", kPatience.count()));
}

bool ServerProcess::has_ended() {
  if (process_ != 0 && ::waitpid(process_, &wait_status_, WNOHANG) == process_) process_ = 0;
  return process_ == 0;
}

Status ServerProcess::unexpected_end() const {
  const Result<std::string> log = read_file(log_path(), kMaxLogBytes);
  return Status::internal(fmt::format(
      "the server ended by {} {}:\n{}", WIFSIGNALED(wait_status_) ? "signal" : "exit code",
      WIFSIGNALED(wait_status_) ? WTERMSIG(wait_status_) : WEXITSTATUS(wait_status_),
      log.ok() ? *log : log.status().to_string()));
}

Status ServerProcess::stop() {
  if (has_ended()) return unexpected_end();
  ::kill(process_, SIGTERM);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!has_ended()) {
    if (std::chrono::steady_clock::now() > deadline) {
      return Status::internal(
          fmt::format("the server does not end {} minutes after SIGTERM", kPatience.count()));
    }
    std::this_thread::sleep_for(kPause);
  }
  if (wait_status_ == 0) return {};
  return unexpected_end();
}

ServerProcess::~ServerProcess() {
  if (process_ != 0) {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, &wait_status_, 0);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

}  // namespace quire::load
