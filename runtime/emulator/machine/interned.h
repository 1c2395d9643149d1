// A table of states that many words share. Equal states are stored once and have one number.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ptxbuilder::runtime::emulator {

// A list that allocates no memory unless it has more than N elements.
template <class T, size_t N>
class ShortList {
 public:
  const T* begin() const { return more_.empty() ? few_.data() : more_.data(); }
  const T* end() const { return begin() + size_; }
  T* begin() { return more_.empty() ? few_.data() : more_.data(); }
  T* end() { return begin() + size_; }
  size_t size() const { return size_; }
  T& operator[](size_t k) { return begin()[k]; }

  void push_back(const T& x) {
    if (size_ < N && more_.empty()) {
      few_[size_++] = x;
      return;
    }
    if (more_.empty()) more_.assign(few_.begin(), few_.end());
    more_.push_back(x);
    ++size_;
  }
  template <class F>
  void erase_if(F is_gone) {
    size_t kept = 0;
    for (size_t k = 0; k < size_; ++k)
      if (const T x = begin()[k]; !is_gone(x)) begin()[kept++] = x;
    size_ = kept;
    if (more_.empty()) return;
    if (size_ <= N) {
      std::copy_n(more_.begin(), size_, few_.begin());
      more_.clear();
    } else {
      more_.resize(size_);
    }
  }
  bool operator==(const ShortList& other) const {
    return size_ == other.size_ && std::equal(begin(), end(), other.begin());
  }

 private:
  std::array<T, N> few_{};
  size_t size_ = 0;
  std::vector<T> more_;  // all elements, if there have been more than N
};

// Returns the number of words at the start of `cells`, up to `count`, that are in the given state.
inline size_t run_of(const uint32_t* cells, size_t count, uint32_t state) {
  constexpr size_t block = 16;
  size_t k = 0;
  for (; k + block <= count; k += block) {
    uint32_t differs = 0;
    for (size_t j = 0; j < block; ++j) differs |= cells[k + j] ^ state;
    if (differs) break;
  }
  while (k < count && cells[k] == state) ++k;
  return k;
}

// Stores each distinct state once and numbers it. State must have hash(), and State() has number 0.
template <class State>
class Interned {
 public:
  Interned() { clear(); }

  const State& operator[](uint32_t id) const { return states_[id]; }
  size_t size() const { return states_.size(); }

  void clear() {
    states_.assign(1, State());
    hashes_.assign(1, 0);
    slots_.assign(least_slots, 0);
  }

  uint32_t intern(State&& state) {
    const auto hash = static_cast<uint32_t>(state.hash());
    for (size_t at = hash & mask();; at = (at + 1) & mask()) {
      const uint32_t id = slots_[at];
      if (id == 0) return state == states_[0] ? 0 : add(std::move(state), hash, at);
      if (hashes_[id] == hash && states_[id] == state) return id;
    }
  }

  // Keeps only the states that some cell uses, and renumbers them. each_cell(f) must call f with a reference
  // to each cell.
  template <class F>
  void collect(F each_cell) {
    Interned kept;
    std::vector<uint32_t> renamed(states_.size(), 0);
    each_cell([&](uint32_t& cell) {
      if (cell == 0) return;
      if (renamed[cell] == 0) renamed[cell] = kept.intern(std::move(states_[cell]));
      cell = renamed[cell];
    });
    *this = std::move(kept);
  }

 private:
  static constexpr size_t least_slots = 64;
  size_t mask() const { return slots_.size() - 1; }

  uint32_t add(State&& state, uint32_t hash, size_t at) {
    const auto id = static_cast<uint32_t>(states_.size());
    states_.push_back(std::move(state));
    hashes_.push_back(hash);
    slots_[at] = id;
    if (states_.size() * 2 > slots_.size()) grow();
    return id;
  }
  void grow() {
    slots_.assign(slots_.size() * 4, 0);
    for (uint32_t id = 1; id < hashes_.size(); ++id) {
      size_t at = hashes_[id] & mask();
      while (slots_[at] != 0) at = (at + 1) & mask();
      slots_[at] = id;
    }
  }

  std::vector<State> states_;
  std::vector<uint32_t> hashes_;  // hash of each state
  // Numbers of states, indexed by hash. 0 is an empty slot, and the size is a power of two.
  std::vector<uint32_t> slots_;
};

}  // namespace ptxbuilder::runtime::emulator
