// Ctrl-C and SIGTERM in a chat, as ordinary calls on a thread of its own. What Ctrl-C means depends
// on what the program does: at a prompt it ends the line, during an answer it ends the answer, and
// at any other time (loading; a second one, while an answer is being stopped) it ends the process.
#pragma once

#include <atomic>
#include <mutex>
#include <stop_token>
#include <thread>

namespace quire {

class Interrupts {
 public:
  // Blocks the signals for this thread and those that it starts from now on; create it first.
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // To be called when the other threads run: from now on this thread alone is told of Ctrl-Z and of
  // the terminal's new width, for a line editor handles them where they arrive.
  void threads_started();

  // Until end_answer(), the first signal requests a stop of the returned token.
  std::stop_token begin_answer();
  void end_answer();

  // Until end_prompt(), a signal makes prompt_fd() readable.
  void begin_prompt();
  void end_prompt();
  int prompt_fd() const { return prompt_fd_; }

  // A signal has asked the program to end, not only to stop: SIGTERM.
  bool terminated() const { return terminated_; }

 private:
  enum class Mode { kBusy, kAnswer, kPrompt };

  void run();
  void handle(int signal);

  std::mutex mutex_;
  Mode mode_ = Mode::kBusy;
  std::stop_source answer_;
  int prompt_fd_ = -1;  // an eventfd
  std::atomic<bool> terminated_ = false;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace quire
