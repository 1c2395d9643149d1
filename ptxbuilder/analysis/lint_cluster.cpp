// Rules about a cluster's shared memory (PTX ISA, "Distributed shared memory"): other CTAs may access a CTA's
// memory only after the CTA has started, a CTA must not exit before other CTAs have read its memory, and
// accesses must name .shared::cluster.
#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/analysis/lint_paths.h"

namespace ptxbuilder::analysis {
namespace {

// The most recent read of another CTA's shared memory that the reading thread has not announced to that CTA
// yet.
struct PeerRead {
  int operation = kNone;

  bool operator==(const PeerRead&) const = default;
  static size_t size() { return 1; }
  bool join(const PeerRead& other) {
    const int before = operation;
    operation = std::max(operation, other.operation);
    return operation != before;
  }
};

// Returns whether the first address of an instruction belongs to another CTA's memory.
bool is_mapped(LintKernel& kernel, int i) {
  const std::vector<Sum> addresses = kernel.addresses(i);
  return !addresses.empty() &&
         std::any_of(addresses[0].terms.begin(), addresses[0].terms.end(), [&](const auto& term) {
           const Atom& a = kernel.values.atom(term.first);
           return a.name.starts_with("mapa") && !a.inputs.empty() &&
                  !kernel.values.only_atom(a.inputs.back(), "%cluster_ctarank");
         });
}

bool reaches_peer(LintKernel& kernel, int i) {
  return kernel.operation(i).has("shared::cluster") && is_mapped(kernel, i);
}

// Tracks whether a thread is ordered after the start of all CTAs of the cluster.
struct Entry {
  bool is_known = false;

  bool operator==(const Entry&) const = default;
  static size_t size() { return 1; }
  bool join(const Entry& other) {
    const bool changes = is_known && !other.is_known;
    is_known &= other.is_known;
    return changes;
  }
};

std::set<LintEvent> walk_entries(LintKernel& kernel) {
  std::set<LintEvent> events;
  std::set<int> accesses;
  std::vector<int> waits;  // instructions that wait for the cluster
  for (int i = 0; i < kernel.count(); ++i) {
    const Operation& o = kernel.operation(i);
    if (o.is("ld", "st", "red", "atom") && reaches_peer(kernel, i)) accesses.insert(i);
    if (o.is("barrier") && o.has("cluster") && o.has("wait")) waits.push_back(i);
  }
  if (accesses.empty()) return events;
  for (const ThreadClass& c : kernel.classes)
    follow(kernel, c, Entry{}, [&](Entry& s, int i, bool is_last) {
      const Operation& o = kernel.operation(i);
      // A wait of this thread or of another thread, or a signal from a peer, shows that the other CTAs have
      // started.
      if (o.is_barrier() && !o.has("arrive") && !o.has("warp"))
        s.is_known |=
            std::any_of(waits.begin(), waits.end(), [&](int wait) { return !kernel.precedes(i, wait); });
      if (o.is("mbarrier") && o.has("try_wait", "test_wait")) s.is_known = true;
      if (is_last && !s.is_known && accesses.contains(i))
        events.insert({0, i, kNone,
                       fmt::format("{} accesses another CTA's shared memory without an earlier cluster "
                                   "barrier: the other CTA may not have started",
                                   o.text->opcode)});
    });
  return events;
}

std::set<LintEvent> walk_peers(LintKernel& kernel) {
  std::set<LintEvent> events;
  std::set<int> reads;
  for (int i = 0; i < kernel.count(); ++i)
    if ((kernel.operation(i).is("ld") || kernel.operation(i).is("atom")) && reaches_peer(kernel, i))
      reads.insert(i);
  if (reads.empty()) return events;
  for (const ThreadClass& c : kernel.classes)
    follow(kernel, c, PeerRead{}, [&](PeerRead& s, int i, bool is_last) {
      const Operation& o = kernel.operation(i);
      // The thread announces the read with a signal to the peer, or at any barrier. A barrier of the CTA is
      // enough, because another thread may then proceed to the cluster's barrier.
      const bool tells = o.is_barrier() || (o.is("mbarrier") && o.has("arrive")) ||
                         (o.is("st", "red") && o.has("shared::cluster"));
      if (tells) s.operation = kNone;
      if (reads.contains(i)) s.operation = i;
      if (is_last && kernel.ends(i) && s.operation != kNone)
        events.insert({0, s.operation, i,
                       fmt::format("{} reads another CTA's shared memory without a cluster barrier before "
                                   "the end of the kernel: the other CTA may have ended",
                                   kernel.operation(s.operation).text->opcode)});
    });
  return events;
}

void tell_unknown_peers(LintKernel& kernel, Report& report) {
  if (!report.tells_undecided()) return;
  for (int i = 0; i < kernel.count(); ++i) {
    const Operation& o = kernel.operation(i);
    const bool is_access = o.is("ld", "st", "red", "atom");
    const std::vector<Sum> addresses = kernel.addresses(i);
    if (is_access && o.has("shared::cluster") && kernel.runs(i) && !is_mapped(kernel, i) &&
        !addresses.empty() && !kernel.shared_offset(addresses[0]))
      report.undecided(i, "the CTA of this address");
  }
}

}  // namespace

void check_cluster_entry(LintKernel& kernel, Report& report) {
  report_events(kernel, walk_entries, 0, report);
}

void check_cluster_address(LintKernel& kernel, Report& report) {
  for (int i = 0; i < kernel.count(); ++i) {
    const Operation& o = kernel.operation(i);
    const bool is_own = o.in_shared();
    if (is_own && !o.is("mapa") && !o.has("bulk") && is_mapped(kernel, i))
      report.add(i, fmt::format("{} has an address from mapa, which belongs to another CTA", o.text->opcode));
  }
}

void check_cluster_exit(LintKernel& kernel, Report& report) {
  tell_unknown_peers(kernel, report);
  report_events(kernel, walk_peers, 0, report);
}

}  // namespace ptxbuilder::analysis
