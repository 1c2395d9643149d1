// The rule of a cluster's end: a CTA whose shared memory another reads stays until it has (PTX ISA,
// "Distributed shared memory").
#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/analysis/lint_paths.h"

namespace ptxbuilder::analysis {
namespace {

// The last read of another CTA's shared memory of which a thread has told nobody since.
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

bool reaches_peer(LintKernel& kernel, int i) {
  const std::vector<Sum> addresses = kernel.addresses(i);
  return kernel.operation(i).has("shared::cluster") && !addresses.empty() &&
         std::any_of(addresses[0].terms.begin(), addresses[0].terms.end(), [&](const auto& term) {
           return kernel.values.atom(term.first).name.starts_with("mapa");
         });
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
      // It goes by a barrier, of the CTA too, since another thread may go on to the cluster's; or by a word
      // to the peer.
      const bool tells = o.is("bar") || o.is("barrier") || (o.is("mbarrier") && o.has("arrive")) ||
                         ((o.is("st") || o.is("red")) && o.has("shared::cluster"));
      if (tells) s.operation = kNone;
      if (reads.contains(i)) s.operation = i;
      if (is_last && kernel.ends(i) && s.operation != kNone)
        events.insert({0, s.operation, i,
                       fmt::format("{} reads another CTA's shared memory, and no barrier of the cluster lies "
                                   "between it and the kernel's end: the other CTA may be gone",
                                   kernel.operation(s.operation).text->opcode)});
    });
  return events;
}

}  // namespace

void check_cluster_exit(LintKernel& kernel, Report& report) { report_events(kernel, walk_peers, 0, report); }

}  // namespace ptxbuilder::analysis
