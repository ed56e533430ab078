// The memory of all bodies that are being received, and who gives way when there is no more: not
// the client that comes last, but the one that sends most slowly, so that clients that begin bodies
// and do not go on cannot keep the others out. I/O thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>

namespace quire {

class BodyBudget {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // A body that has not brought so much in this time gives way to others.
  static constexpr std::uint64_t kProgressBytes = 64 * 1024;
  static constexpr std::chrono::seconds kProgressTime{1};

  explicit BodyBudget(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}
  std::uint64_t held_bytes() const { return held_bytes_; }

  // One body, counted from the first byte until this object ends.
  class Body {
   public:
    // `give_way` frees what has been received, for another needs the room; it is called once at
    // most, and the body counts nothing from then on.
    Body(BodyBudget& budget, std::function<void()> give_way, TimePoint now);
    ~Body();
    Body(const Body&) = delete;
    Body& operator=(const Body&) = delete;

    // The body has brought `received_bytes` and uses `held_bytes` of memory. False: there is no
    // room for it, though all that were slower have given way; its caller refuses it.
    bool update(std::uint64_t received_bytes, std::uint64_t held_bytes, TimePoint now);
    // It is complete: it is still counted, and no longer gives way.
    void complete();
    void release();  // it uses nothing any more, and gives way no longer

   private:
    friend class BodyBudget;

    BodyBudget& budget_;
    std::function<void()> give_way_;
    std::uint64_t held_bytes_ = 0;
    std::uint64_t marked_bytes_ = 0;  // received when it was last seen to progress
    TimePoint progressed_;
    std::list<Body*>::iterator place_;
    bool receiving_ = true;
  };

 private:
  // Of those that use something; null: all of them progress.
  Body* slowest(TimePoint now) const;

  std::uint64_t max_bytes_;
  std::uint64_t held_bytes_ = 0;
  std::list<Body*> receiving_;
};

}  // namespace quire
