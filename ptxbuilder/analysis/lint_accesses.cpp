#include "ptxbuilder/analysis/lint_accesses.h"

#include <algorithm>

#include "ptxbuilder/analysis/lint_protocol.h"
#include "ptxbuilder/analysis/portrait.h"

namespace ptxbuilder::analysis {
bool is_thread_copy(const Operation& o) {
  return o.is("cp") && o.has("async") && !o.has("bulk") && !o.has("mbarrier") && o.operands.size() >= 3;
}

std::optional<Access> write_of(LintKernel& kernel, int i) {
  const Operation& o = kernel.operation(i);
  const bool copies = is_thread_copy(o);
  if (!copies && !(o.is("st", "stmatrix") && o.in_shared())) return std::nullopt;
  const std::vector<Sum> addresses = kernel.addresses(i);
  const auto to = addresses.empty() ? std::nullopt : kernel.shared_offset(addresses.front());
  const Sum bytes =
      copies ? kernel.operand(i, 2) : Sum{.constant = o.is("st") ? access_bytes(o) : matrix_row};
  if (!to || !bytes.is_constant() || bytes.constant <= 0) return std::nullopt;
  return Access{i, *to, bytes.constant};
}

std::vector<Access> tiles_of(LintKernel& kernel, int wgmma) {
  const Operation& o = kernel.operation(wgmma);
  std::vector<Access> all;
  for (size_t n = 1; n < 3; ++n) {
    if (o.operands[n].kind == Value::Kind::vector) continue;
    const auto d = decode_descriptor(kernel.values, kernel.operand(wgmma, n));
    const auto address = d ? kernel.shared_offset(d->address) : std::nullopt;
    if (!address || matrix_operand(o, n).is_transposed) continue;
    constexpr int64_t kRows = 64, kRowsOfStride = 8, kLeast = 256;
    const int64_t rows = n == 1 ? kRows : kRowsOfStride;
    all.push_back({wgmma, *address, std::max(kLeast, rows / kRowsOfStride * d->stride_bytes)});
  }
  return all;
}

std::vector<Access> reads_of(LintKernel& kernel, int i) {
  const Operation& o = kernel.operation(i);
  if (o.is_wgmma()) return tiles_of(kernel, i);
  const bool loads = o.is("ld", "ldmatrix") && o.in_shared();
  const std::vector<Sum> addresses = loads ? kernel.addresses(i) : std::vector<Sum>();
  const auto address = addresses.empty() ? std::nullopt : kernel.shared_offset(addresses.front());
  if (!address) return {};
  return {{i, *address, o.is("ldmatrix") ? matrix_row : access_bytes(o)}};
}

const Spread& Meetings::spread(const ThreadClass& c, const Access& access) {
  const auto [known, is_new] = spreads_.try_emplace({&c, &access});
  if (!is_new) return known->second;
  const Sum first = kernel_.values_in(c).rest(access.address);
  std::set<int64_t> all = {0};
  // Skips threads if a condition that does not depend only on their number decides whether they run the
  // access.
  for (const ThreadClass& other : kernel_.classes) {
    if (other.runs[at(access.operation)] == Runs::no) continue;
    kernel_.spend(other.threads.size());
    for (int64_t t : other.threads)
      if (const Sum rest = kernel_.values_in(t).rest(access.address); rest.terms == first.terms)
        all.insert(rest.constant - first.constant);
  }
  known->second.assign(all.begin(), all.end());
  return known->second;
}

void tell_unknown_reads(LintKernel& kernel, Report& report) {
  if (!report.tells_undecided()) return;
  for (int i = 0; i < kernel.count(); ++i) {
    const Operation& o = kernel.operation(i);
    for (size_t n = 1; n < 3 && o.is_wgmma(); ++n) {
      if (o.operands[n].kind == Value::Kind::vector || !kernel.runs(i)) continue;
      const auto d = decode_descriptor(kernel.values, kernel.operand(i, n));
      if (!d || !kernel.shared_offset(d->address))
        report.undecided(
            i, n == 1 ? "the address in the descriptor of A" : "the address in the descriptor of B");
    }
  }
}

bool Meetings::meet(const Reach& a, const Reach& b) {
  const Spread &x = spread(*a.by, *a.access), &y = spread(*b.by, *b.access);
  kernel_.spend(1 + (x.size() + y.size()) / 16);
  for (size_t i = 0, j = 0; i < x.size() && j < y.size();) {
    const int64_t from = a.first + x[i], to = b.first + y[j];
    if (from + a.access->bytes <= to)
      ++i;
    else if (to + b.access->bytes <= from)
      ++j;
    else
      return true;
  }
  return false;
}

Meetings::Reaches Meetings::by_barrier(const ThreadClass& c, const Access& access, const Sum& barrier,
                                       int moves) {
  Reaches all;
  if (const auto pairs = together(kernel_, kernel_.values_in(c), access.address, barrier, moves))
    for (const auto& [place, cell] : *pairs) all.emplace(cell, Reach{&c, &access, place});
  return all;
}

bool Meetings::meet(const ThreadClass& c, const Access& earlier, const Access& later, int moves) {
  ThreadValues& in = kernel_.values_in(c);
  // If a value other than a ring's stage determines both addresses, this value is the same for both.
  const Sum from = in.rest(earlier.address), to = in.rest(later.address);
  if (moves == 0 && from.terms == to.terms)
    return meet({&c, &earlier, from.constant}, {&c, &later, to.constant});
  const auto pairs = together(kernel_, in, earlier.address, later.address, moves);
  return pairs && std::any_of(pairs->begin(), pairs->end(), [&](const auto& pair) {
           return meet({&c, &earlier, pair.first}, {&c, &later, pair.second});
         });
}

bool is_meeting(const Operation& o) {
  if (o.is_barrier()) return !o.has("arrive") && !o.has("warp");
  return o.is_mbarrier_wait();
}

Readers::Readers(LintKernel& kernel, Meetings& meetings) : kernel_(kernel), meetings_(meetings) {
  for (int i = 0; i < kernel.count(); ++i)
    if (kernel.runs(i))
      if (std::vector<Access> reads = reads_of(kernel, i); !reads.empty()) all_[i] = std::move(reads);
}

const Meetings::Reaches& Readers::behind_waits(bool by_wgmma) {
  std::optional<Meetings::Reaches>& found = behind_[by_wgmma];
  if (found) return *found;
  found.emplace();
  std::vector<int> meetings, fences;
  for (int i = 0; i < kernel_.count(); ++i) {
    const Operation& o = kernel_.operation(i);
    if (is_meeting(o)) meetings.push_back(i);
    if (by_wgmma && o.is_async_fence()) fences.push_back(i);
  }
  for (const Use& wait : kernel_.protocol().uses) {
    const auto barrier = wait.waits ? kernel_.shared_offset(wait.address) : std::nullopt;
    if (!barrier) continue;
    for (const auto& [read, accesses] : all_) {
      if (by_wgmma && !kernel_.operation(read).is_wgmma()) continue;
      const bool is_next = kernel_.precedes(wait.operation, read) &&
                           std::none_of(meetings.begin(), meetings.end(), [&, read = read](int other) {
                             return other != wait.operation && kernel_.precedes(wait.operation, other) &&
                                    kernel_.precedes(other, read);
                           });
      const bool is_fenced = std::any_of(fences.begin(), fences.end(), [&, read = read](int fence) {
        return kernel_.precedes(wait.operation, fence) && kernel_.precedes(fence, read);
      });
      if (!is_next || is_fenced) continue;
      for (const ThreadClass& c : kernel_.classes)
        if (c.runs[at(read)] != Runs::no)
          for (const Access& access : accesses) found->merge(meetings_.by_barrier(c, access, *barrier, 0));
    }
  }
  return *found;
}

void Moves::add(const LintKernel& kernel, int key, const Sum& place) {
  visit_atoms(kernel.values, place, [&](int, const Atom& a) {
    if (a.block != kNone)
      at_[kernel.graph.blocks[at(a.block)].first].insert(key);
    else if (a.kind == Atom::Kind::unknown && a.operation != kNone)
      at_[a.operation].insert(key);
    return a.block == kNone;
  });
}

}  // namespace ptxbuilder::analysis
