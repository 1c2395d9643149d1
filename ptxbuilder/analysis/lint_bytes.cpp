// The rule about expect_tx: copies must transfer exactly the bytes that a phase of an mbarrier expects.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "ptxbuilder/analysis/lint_protocol.h"
#include "ptxbuilder/analysis/portrait.h"

namespace ptxbuilder::analysis {
namespace {

struct Range {
  int64_t first = 0, bytes = 0;
  auto operator<=>(const Range&) const = default;
};

// Determines the number of bytes that copies transfer, and the number of these bytes that the kernel reads.
class Bytes {
 public:
  explicit Bytes(LintKernel& kernel) : kernel_(kernel), protocol_(kernel.protocol()) {
    for (const Use& use : protocol_.uses)
      if (use.copies && !kernel.operation(use.operation).is("mbarrier")) find_destinations(use);
    for (const auto& [operation, places] : destinations_) starts_.insert(places.begin(), places.end());
    for (const auto& [cell, uses] : protocol_.by_cell) starts_.insert(cell);
    for (int64_t i = 0; i < std::ssize(kernel.shared_variables); ++i) {
      const int64_t start = i * LintKernel::apart, bytes = kernel.variable_at(start)->bytes;
      starts_.insert(start);
      if (bytes > 0) starts_.insert(start + bytes);
    }
  }

  const Protocol& protocol() const { return protocol_; }

  // Returns the greatest number of bytes that the copy can transfer for each of `stages` barriers without
  // overlapping the next range that is used.
  std::optional<int64_t> room(int copy, size_t stages) const {
    const auto places = destinations_.find(copy);
    if (places == destinations_.end()) return std::nullopt;
    std::optional<int64_t> least;
    const size_t count = places_of_stage(copy, stages);
    if (count == 0) return std::nullopt;
    for (int64_t place : places->second) {
      const auto next = starts_.upper_bound(place);
      if (next != starts_.end()) least = std::min(least.value_or(*next - place), *next - place);
    }
    if (!least) return std::nullopt;
    return *least * static_cast<int64_t>(count);
  }

  // Returns a copy's destination for each barrier of the ring that counts the copy. Returns an empty map if
  // the destinations are not known.
  const std::map<int64_t, int64_t>& by_barrier(int copy) { return by_barrier_[copy]; }

  // Returns whether all threads copy to the same address.
  bool is_one_place(int copy) {
    const auto to = kernel_.shared_offset(kernel_.addresses(copy).front());
    return to && kernel_.is_uniform(*to);
  }

  // Returns the value of the size operand of a bulk copy.
  std::optional<int64_t> said(int copy) {
    const Operation& o = kernel_.operation(copy);
    if (!o.is("cp") || o.has("tensor") || o.operands.size() < 4) return std::nullopt;
    const Sum bytes = kernel_.operand(copy, 2);
    return bytes.is_constant() ? std::optional(bytes.constant) : std::nullopt;
  }

  // Returns a lower bound of the number of bytes that the kernel reads from the destination of a copy, in the
  // copy's first stage.
  int64_t read(int copy, size_t stages) {
    find_reads();
    const auto room_of_copy = room(copy, stages);
    if (!room_of_copy) return 0;
    const int64_t first = *destinations_.at(copy).begin(), last = first + *room_of_copy;
    int64_t by_products = 0, by_loads = 0;
    for (const auto& [how, ranges] : products_) {
      int64_t bytes = 0;
      for (const Range& r : ranges)
        if (r.first >= first && r.first < last) bytes += r.bytes;
      by_products = std::max(by_products, bytes);
    }
    for (int64_t word : words_)
      if (word * kWord >= first && word * kWord < last) by_loads += kWord;
    return std::max(by_products, by_loads);
  }

 private:
  static constexpr int64_t kWord = 4;

  void find_destinations(const Use& use) {
    std::set<int64_t> all;
    const auto to = kernel_.shared_offset(kernel_.addresses(use.operation).front());
    if (!to) return;
    for (const ThreadClass& c : kernel_.classes) {
      if (c.runs[at(use.operation)] == Runs::no) continue;
      const auto places = options(kernel_, kernel_.values_in(c), *to);
      if (!places) return;
      all.insert(places->begin(), places->end());
    }
    destinations_[use.operation] = std::move(all);
    find_stages(use, *to);
  }

  void find_stages(const Use& use, const Sum& to) {
    const std::optional<Sum> barrier = kernel_.shared_offset(use.address);
    std::map<int64_t, int64_t> all;
    for (const ThreadClass& c : kernel_.classes) {
      if (c.runs[at(use.operation)] == Runs::no) continue;
      const auto pairs = barrier ? together(kernel_, kernel_.values_in(c), *barrier, to) : std::nullopt;
      if (!pairs) return;
      for (const auto& [cell, place] : *pairs)
        if (all.emplace(cell, place).first->second != place) return;
    }
    by_barrier_[use.operation] = std::move(all);
  }

  // Returns the number of destinations that a copy fills for each of `stages` barriers, or 0 if the numbers
  // differ or are not known.
  size_t places_of_stage(int copy, size_t stages) const {
    const auto known = by_barrier_.find(copy);
    if (known != by_barrier_.end() && known->second.size() == stages) return 1;
    const size_t all = destinations_.at(copy).size();
    return all % stages == 0 ? all / stages : 0;
  }

  // Returns the smallest value of the offset, which is its value in the first stage of a ring.
  std::optional<int64_t> first_place(const std::optional<Sum>& offset, ThreadValues& in) {
    if (!offset) return std::nullopt;
    const auto places = options(kernel_, in, *offset);
    return places ? std::optional(*places->begin()) : std::nullopt;
  }

  void find_reads() {
    if (has_reads_) return;
    has_reads_ = true;
    for (int i = 0; i < kernel_.count(); ++i) {
      const Operation& o = kernel_.operation(i);
      const bool loads = o.is("ld") && o.in_shared();
      if (!o.is_wgmma() && !loads) continue;
      for (const ThreadClass& c : kernel_.classes) {
        if (c.runs[at(i)] == Runs::no) continue;
        if (loads)
          find_loads(i, c);
        else
          for (int64_t t : c.threads)
            if (t % hopper::warpgroup_threads == 0) find_products(i, kernel_.values_in(t));
      }
    }
  }

  // Records the reads of a wgmma, which are 32 bytes in each of the 64 rows of A and the n rows of B, or 64
  // bytes in each row of B if A is sparse.
  void find_products(int i, ThreadValues& in) {
    const Operation& o = kernel_.operation(i);
    // The number of rows of A, and the number of bytes of an element that may be transposed.
    constexpr int64_t kRows = 64, kTransposed = 2;
    const bool is_sparse = o.has("sp");
    int64_t columns = 0;
    for (std::string_view word : o.words)
      if (word.starts_with("m64n"))
        for (char digit : word.substr(4)) {
          if (digit == 'k') break;
          columns = columns * 10 + (digit - '0');
        }
    // If A is in registers, there is no flag for its transposition. If A is sparse, the metadata and the
    // selector precede the flags.
    const size_t behind =
        (o.operands.size() > 1 && o.operands[1].kind == Value::Kind::vector ? 4 : 5) + 2 * is_sparse;
    for (size_t n = 1; n < 3 && n < o.operands.size(); ++n) {
      if (o.operands[n].kind == Value::Kind::vector) continue;
      const auto descriptor = decode_descriptor(kernel_.values, kernel_.operand(i, n));
      if (!descriptor) continue;
      const auto place = first_place(kernel_.shared_offset(descriptor->address), in);
      if (!place) continue;
      const int64_t transposed = o.operands.size() > n + behind ? o.operands[n + behind].value : 0,
                    lines = n == 1 ? kRows : columns, bytes_of_k = n == 2 && is_sparse ? 64 : 32;
      std::set<Range>& ranges = products_[{n, transposed}];
      // A transposed operand consists of panels of the swizzle's width. Each row of a panel belongs to one k,
      // and contains one 16-bit element of each line.
      const int64_t width = descriptor->layout == 0 ? 0 : 256 >> descriptor->layout;
      if (transposed != 0 && width > 0 && lines * kTransposed > width)
        for (int64_t panel = 0; panel * width < lines * kTransposed; ++panel)
          ranges.insert({*place + panel * descriptor->leading_bytes, width * bytes_of_k / kTransposed});
      else
        ranges.insert({*place, lines * bytes_of_k});
    }
  }

  void find_loads(int i, const ThreadClass& c) {
    const Operation& o = kernel_.operation(i);
    const std::vector<Sum> addresses = kernel_.addresses(i);
    if (addresses.empty()) return;
    const auto offset = kernel_.shared_offset(addresses.front());
    const int64_t bytes = access_bytes(o);
    kernel_.spend(c.threads.size());
    for (int64_t t : c.threads)
      if (const auto place = first_place(offset, kernel_.values_in(t)))
        for (int64_t word = *place / kWord; word * kWord < *place + bytes; ++word) words_.insert(word);
  }

  LintKernel& kernel_;
  const Protocol& protocol_;
  std::map<int, std::set<int64_t>> destinations_;
  std::map<int, std::map<int64_t, int64_t>> by_barrier_;
  std::set<int64_t> starts_;  // starts of the used and unused ranges in shared memory
  // The key consists of the operand and its transposition, so that an operand that is read in several ways
  // counts only once.
  std::map<std::pair<size_t, int64_t>, std::set<Range>> products_;
  std::set<int64_t> words_;  // addresses of the words of 4 bytes that are loaded
  bool has_reads_ = false;
};

// The expect_tx instructions that belong to one phase.
using Expectation = std::vector<size_t>;  // indices in Protocol::uses, each before the next

// Returns whether `first`, or a use between `first` and `second`, performs the action `does` on the barriers
// of `first`.
bool is_done(const LintKernel& kernel, const Protocol& protocol, bool Use::*does, size_t first,
             size_t second) {
  const int from = protocol.uses[first].operation, to = protocol.uses[second].operation;
  kernel.spend(protocol.uses.size());
  for (size_t u = 0; u < protocol.uses.size(); ++u) {
    const int i = protocol.uses[u].operation;
    if (protocol.uses[u].*does && protocol.cells[u] == protocol.cells[first] &&
        (i == from || kernel.precedes(from, i)) && kernel.precedes(i, to))
      return true;
  }
  return false;
}

int loop_of(const LintKernel& kernel, int i) {
  return kernel.graph.blocks[at(kernel.graph.block_of[at(i)])].loop;
}

// Returns whether two expect_tx of a thread belong to one phase. The phase cannot end between the two if no
// arrival is between them, or if no copy of the expected bytes has started.
bool are_of_one_phase(LintKernel& kernel, const Protocol& protocol, size_t first, size_t second) {
  const Use &a = protocol.uses[first], &b = protocol.uses[second];
  const Operation &x = kernel.operation(a.operation), &y = kernel.operation(b.operation);
  kernel.spend(1);
  if (protocol.cells[first] != protocol.cells[second] || !(a.address == b.address)) return false;
  if (x.guard != y.guard || x.negated != y.negated || !kernel.precedes(a.operation, b.operation) ||
      loop_of(kernel, a.operation) != loop_of(kernel, b.operation))
    return false;
  return !is_done(kernel, protocol, &Use::arrives, first, second) ||
         !is_done(kernel, protocol, &Use::copies, first, second);
}

std::vector<Expectation> expectations(LintKernel& kernel, const Protocol& protocol) {
  std::vector<Expectation> all;
  for (size_t u = 0; u < protocol.uses.size(); ++u) {
    if (!protocol.uses[u].expects) continue;
    const auto before = std::find_if(all.begin(), all.end(), [&](const Expectation& e) {
      return are_of_one_phase(kernel, protocol, e.back(), u);
    });
    if (before == all.end())
      all.push_back({u});
    else
      before->push_back(u);
  }
  return all;
}

// Returns the copies to the barriers of an expectation that follow this expectation without a later
// expectation in between.
std::vector<int> copies_of(LintKernel& kernel, const Protocol& protocol, const Expectation& expectation) {
  std::vector<int> copies;
  const size_t expect = expectation.front();
  const int from = protocol.uses[expect].operation;
  kernel.spend(protocol.uses.size());
  for (size_t u = 0; u < protocol.uses.size(); ++u) {
    const Use& use = protocol.uses[u];
    if (!use.copies || protocol.cells[u] != protocol.cells[expect]) continue;
    if (!kernel.precedes(from, use.operation)) continue;
    kernel.spend(protocol.uses.size());
    const bool is_nearest = std::none_of(protocol.uses.begin(), protocol.uses.end(), [&](const Use& other) {
      const size_t o = static_cast<size_t>(&other - protocol.uses.data());
      const bool is_own = std::find(expectation.begin(), expectation.end(), o) != expectation.end();
      return other.expects && !is_own && protocol.cells[o] == protocol.cells[expect] &&
             kernel.precedes(from, other.operation) && kernel.precedes(other.operation, use.operation);
    });
    if (is_nearest) copies.push_back(use.operation);
  }
  return copies;
}

// Returns the number of threads that use an instruction to access the first barrier of a use, or 1 if the
// number is not known.
int64_t threads_of(Protocol& protocol, int operation, size_t use) {
  const auto found = std::find_if(protocol.uses.begin(), protocol.uses.end(),
                                  [&](const Use& other) { return other.operation == operation; });
  return protocol.threads_at(*found, *protocol.cells[use].begin()).value_or(1);
}

void check_amount(LintKernel& kernel, Bytes& bytes, const Expectation& expectation, Report& report) {
  Protocol& protocol = kernel.protocol();
  const size_t stages = protocol.cells[expectation.front()].size();
  if (stages == 0) return;
  const int last = protocol.uses[expectation.back()].operation;
  int64_t expected = 0;
  std::set<int> others;
  for (size_t u : expectation) {
    const int operation = protocol.uses[u].operation;
    const Sum amount = kernel.values.of(operation, kernel.operation(operation).operands.back());
    if (!amount.is_constant()) return report.undecided(operation, "how many bytes are expected");
    expected += amount.constant * threads_of(protocol, operation, expectation.front());
    others.insert(operation);
  }
  const std::vector<int> copies = copies_of(kernel, protocol, expectation);
  int64_t room = 0, read = 0, said = 0;
  bool all_have_room = !copies.empty(), all_say = !copies.empty();
  for (int copy : copies) {
    if (loop_of(kernel, copy) != loop_of(kernel, last))
      return report.undecided(copy, "how often this copies for each time that bytes are expected");
    const int64_t threads = threads_of(protocol, copy, expectation.front());
    auto own = bytes.said(copy);
    if (own) *own *= threads;
    if (!own && threads > 1) {
      if (bytes.is_one_place(copy))
        report.add(copy, fmt::format("{} threads copy to the same place", threads), others,
                   "Let one thread copy, chosen with elect.sync or by its number.");
      return;
    }
    all_say = all_say && own;
    said += own.value_or(0);
    const auto most = own ? own : bytes.room(copy, stages);
    all_have_room = all_have_room && most;
    room += most.value_or(0);
    read += own ? 0 : bytes.read(copy, stages);
  }
  others.insert(copies.begin(), copies.end());
  if (all_say && said != expected)
    report.add(last, fmt::format("{} bytes are expected, but the copies transfer {}", expected, said),
               others);
  else if (all_have_room && expected > room)
    report.add(last,
               fmt::format("{} bytes are expected, but the destination of the copies has room for {}",
                           expected, room),
               others,
               "Expect the sum of the bytes of the copies, and put stages at least as far apart as the size "
               "of one.");
  else if (!all_have_room)
    report.undecided(last,
                     copies.empty() ? "which copies transfer the bytes" : "the destination of the copies");
  else if (expected < read)
    report.add(last,
               fmt::format("{} bytes are expected, but {} of the copied bytes are read", expected, read),
               others);
}

}  // namespace

void check_expected_bytes(LintKernel& kernel, Report& report) {
  Bytes bytes(kernel);
  const Protocol& protocol = bytes.protocol();
  if (!protocol.is_complete_for(report)) return;
  for (const auto& [cell, uses] : protocol.by_cell) {
    const std::set<int> copies = protocol.operations(cell, &Use::copies),
                        expects = protocol.operations(cell, &Use::expects);
    if (expects.empty() && !copies.empty())
      report.add(
          *copies.begin(),
          fmt::format("copies complete bytes at {}, where no expect_tx announces them", place(kernel, cell)),
          copies);
    if (copies.empty() && !expects.empty())
      report.add(*expects.begin(),
                 fmt::format("{} expects bytes that no copy transfers", place(kernel, cell)), expects);
  }
  for (const Expectation& expectation : expectations(kernel, protocol))
    check_amount(kernel, bytes, expectation, report);
}

// Checks whether copies of two stages of a ring fill the same memory.
void check_stages(LintKernel& kernel, Report& report) {
  Bytes bytes(kernel);
  const Protocol& protocol = bytes.protocol();
  struct Filled {
    int64_t barrier;
    int copy;
  };
  std::map<Cells, std::map<int64_t, Filled>> rings;  // filled ranges, indexed by barriers and by address
  for (size_t u = 0; u < protocol.uses.size(); ++u) {
    const int copy = protocol.uses[u].operation;
    for (const auto& [barrier, to] : bytes.by_barrier(copy)) {
      const auto [known, is_new] = rings[protocol.cells[u]].emplace(to, Filled{barrier, copy});
      if (!is_new && known->second.barrier != barrier)
        report.add(
            copy,
            fmt::format("copies of two stages of a ring go to {}: one completes at {}, the other at {}",
                        kernel.place(to), place(kernel, known->second.barrier), place(kernel, barrier)),
            {known->second.copy});
    }
  }
}

}  // namespace ptxbuilder::analysis
