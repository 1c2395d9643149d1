// Runs the all-to-all of tokens for experts on several ranks. It holds the rows and exchange memory of each
// rank, and the expected place of each row.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "kernels/ranks/ranked_tokens.h"
#include "tests/ranks/ranks_kit.h"

namespace ptxbuilder::test {

using kernels::TokenForm;

struct TokensCase {
  int ranks = 2;
  int64_t experts = 4, most_rows = 64, row_bytes = 256;
  bool is_full = false;  // each rank has most_rows rows, which all have experts
};

class TokensRun {
 public:
  using Words = std::vector<uint32_t>;

  TokensRun(RankedRun::Devices& devices, const TokensCase& c, uint64_t seed)
      : devices_(devices), case_(c), engine_(seed) {
    const size_t bytes = kernels::RankedTokens::memory_bytes(c.ranks, c.experts, c.most_rows, c.row_bytes);
    const auto row_bytes = static_cast<size_t>(c.row_bytes), most = static_cast<size_t>(c.most_rows);
    for (auto& device : devices) {
      for (std::vector<runtime::Buffer>* all : {&sorted_, &returned_})
        all->emplace_back(*device, most * row_bytes);
      grouped_.emplace_back(*device, ranks() * most * row_bytes);
      ends_.emplace_back(*device, ranks() * experts() * 4);
      splits_.emplace_back(*device, ranks() * experts() * 4);
      grouped_ends_.emplace_back(*device, experts() * 4);
      memory_.emplace_back(*device, bytes);
      memory_.back().fill(0);
    }
    draw_again();
  }

  // Draws other rows and other experts for them. Some experts have no rows.
  void draw_again() {
    synchronize();
    rows_.clear(), own_ends_.clear(), words_.clear();
    for (size_t r = 0; r < ranks(); ++r) {
      const auto most = static_cast<uint32_t>(case_.most_rows);
      const auto rows = case_.is_full ? most : static_cast<uint32_t>(engine_() % (most + 1));
      Words ends(ranks() * experts());
      for (uint32_t& end : ends) end = static_cast<uint32_t>(engine_() % (rows + 1));
      if (case_.is_full) ends.back() = rows;
      std::ranges::sort(ends);
      rows_.push_back(rows), own_ends_.push_back(ends);
      words_.push_back(drawn(static_cast<size_t>(most) * words_of_row()));
      sorted_[r].copy_in(words_[r]);
      ends_[r].copy_in(ends);
    }
    poison();
  }
  // Poisons the results before a call, because they may hold anything.
  void poison() {
    for (std::vector<runtime::Buffer>* all : {&grouped_, &splits_, &grouped_ends_, &returned_})
      for (runtime::Buffer& one : *all) one.fill(0xff);
    synchronize();
  }
  // Replaces the rows of experts with other rows, which a combine must bring back.
  void answer() {
    synchronize();
    answers_.clear();
    for (size_t r = 0; r < ranks(); ++r) {
      answers_.push_back(drawn(ranks() * static_cast<size_t>(case_.most_rows) * words_of_row()));
      grouped_[r].copy_in(answers_[r]);
    }
    synchronize();
  }
  void synchronize(std::chrono::milliseconds limit = std::chrono::seconds(60)) {
    for (auto& device : devices_) device->synchronize(limit);
  }
  kernels::RankedTokensArguments arguments(int rank, TokenForm form) const {
    kernels::RankedTokensArguments p;
    const auto r = static_cast<size_t>(rank);
    p.rank = rank;
    for (const runtime::Buffer& memory : memory_) p.memory.push_back(memory);
    p.experts = case_.experts, p.rows = rows_[r], p.most_rows = case_.most_rows;
    p.row_bytes = case_.row_bytes;
    p.sorted = form == TokenForm::dispatch ? sorted_[r] : returned_[r], p.ends = ends_[r],
    p.grouped = grouped_[r], p.splits = splits_[r];
    p.grouped_ends = grouped_ends_[r];
    return p;
  }

  // Returns whether each rank has exactly the expected bits, and nothing else was touched.
  bool is_dispatched() const {
    for (size_t r = 0; r < ranks(); ++r) {
      Words grouped, ends, splits(ranks() * experts());
      for (size_t e = 0; e < experts(); ++e) {
        for (size_t from = 0; from < ranks(); ++from) {
          const auto [first, last] = range(from, r * experts() + e);
          append(grouped, words_[from], first, last);
          splits[from * experts() + e] = last - range(from, r * experts()).first;
        }
        ends.push_back(static_cast<uint32_t>(grouped.size() / words_of_row()));
      }
      grouped.resize(ranks() * static_cast<size_t>(case_.most_rows) * words_of_row(), ~0u);
      if (grouped_[r].copy_out<uint32_t>() != grouped || grouped_ends_[r].copy_out<uint32_t>() != ends ||
          splits_[r].copy_out<uint32_t>() != splits)
        return false;
    }
    return true;
  }
  bool is_combined() const {
    std::vector<Words> sorted(ranks());
    for (size_t expert = 0; expert < ranks() * experts(); ++expert) {
      const size_t r = expert / experts();
      uint32_t at = 0;  // rows of that rank's earlier experts
      for (size_t before = r * experts(); before < expert; ++before)
        for (size_t from = 0; from < ranks(); ++from)
          at += range(from, before).second - range(from, before).first;
      for (size_t from = 0; from < ranks(); ++from) {
        const auto [first, last] = range(from, expert);
        // A rank has no rows before those of the first expert, so that rows can be appended in order.
        append(sorted[from], answers_[r], at, at + last - first);
        at += last - first;
      }
    }
    return is_returned(sorted);
  }
  // Returns whether a combine has brought back what the preceding dispatch took.
  bool has_come_back() const {
    std::vector<Words> sorted(ranks());
    for (size_t r = 0; r < ranks(); ++r) append(sorted[r], words_[r], 0, own_ends_[r].back());
    return is_returned(sorted);
  }
  std::vector<std::vector<std::byte>> results() const {
    std::vector<std::vector<std::byte>> found;
    for (const std::vector<runtime::Buffer>* all : {&grouped_, &returned_})
      for (const runtime::Buffer& one : *all) found.push_back(one.copy_out<std::byte>());
    return found;
  }

 private:
  size_t ranks() const { return static_cast<size_t>(case_.ranks); }
  size_t experts() const { return static_cast<size_t>(case_.experts); }
  size_t words_of_row() const { return static_cast<size_t>(case_.row_bytes) / 4; }
  // Returns the first row and the end of a rank's rows for one expert among those of all ranks.
  std::pair<uint32_t, uint32_t> range(size_t from, size_t expert) const {
    return {expert ? own_ends_[from][expert - 1] : 0, own_ends_[from][expert]};
  }
  void append(Words& to, const Words& rows, uint32_t first, uint32_t last) const {
    const auto at = [&](uint32_t row) { return rows.begin() + static_cast<ptrdiff_t>(row * words_of_row()); };
    to.insert(to.end(), at(first), at(last));
  }
  bool is_returned(std::vector<Words> sorted) const {
    for (size_t r = 0; r < ranks(); ++r) {
      sorted[r].resize(static_cast<size_t>(case_.most_rows) * words_of_row(), ~0u);
      if (returned_[r].copy_out<uint32_t>() != sorted[r]) return false;
    }
    return true;
  }
  Words drawn(size_t count) {
    Words words(count);
    for (uint32_t& word : words) word = static_cast<uint32_t>(engine_());
    return words;
  }

  RankedRun::Devices& devices_;
  TokensCase case_;
  std::mt19937_64 engine_;
  std::vector<uint32_t> rows_;
  std::vector<Words> own_ends_, words_, answers_;
  std::vector<runtime::Buffer> sorted_, returned_, grouped_, ends_, splits_, grouped_ends_, memory_;
};

}  // namespace ptxbuilder::test
