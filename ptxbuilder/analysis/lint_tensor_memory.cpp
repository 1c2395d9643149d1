// Rules about tensor memory (PTX ISA, "tcgen05.wait" and "tcgen05.fence"): the result of a load is available
// after a wait, and the products of another thread are available after a fence.
#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/analysis/lint_paths.h"
#include "ptxbuilder/analysis/lint_protocol.h"

namespace ptxbuilder::analysis {
namespace {

struct TensorMemoryState {
  std::map<int, int> loading;  // for each register, the tcgen05.ld that may still be writing it
  int met = kNone;             // the last wait for products, if no fence has followed it

  bool operator==(const TensorMemoryState&) const = default;
  size_t size() const { return loading.size() + 1; }
  bool join(const TensorMemoryState& other) {
    const TensorMemoryState before = *this;
    loading.insert(other.loading.begin(), other.loading.end());
    met = std::max(met, other.met);
    return !(before == *this);
  }
};

// Returns the waits for mbarriers at which tcgen05.commit arrives.
std::set<int> waits_for_products(LintKernel& kernel) {
  const Protocol& protocol = kernel.protocol();
  Cells committed;
  for (size_t u = 0; u < protocol.uses.size(); ++u)
    if (kernel.operation(protocol.uses[u].operation).is("tcgen05"))
      committed.insert(protocol.cells[u].begin(), protocol.cells[u].end());
  std::set<int> waits;
  for (size_t u = 0; u < protocol.uses.size(); ++u)
    if (protocol.uses[u].waits && std::any_of(protocol.cells[u].begin(), protocol.cells[u].end(),
                                              [&](int64_t cell) { return committed.contains(cell); }))
      waits.insert(protocol.uses[u].operation);
  return waits;
}

class TensorMemoryWalk {
 public:
  enum Kind : int { kUnwaited, kUnfenced };

  explicit TensorMemoryWalk(LintKernel& kernel) : kernel_(kernel) {}

  std::set<LintEvent> run() {
    const auto loads = [&](int i) {
      return kernel_.operation(i).is("tcgen05") && kernel_.operation(i).has("ld");
    };
    bool any = false;
    for (int i = 0; i < kernel_.count() && !any; ++i) any = loads(i);
    if (!any) return {};
    waits_ = waits_for_products(kernel_);
    for (const ThreadClass& c : kernel_.classes)
      follow(kernel_, c, TensorMemoryState{},
             [&](TensorMemoryState& s, int i, bool is_last) { step(s, i, is_last); });
    return std::move(events_);
  }

 private:
  void step(TensorMemoryState& s, int i, bool is_last) {
    const Operation& o = kernel_.operation(i);
    for (const auto* list : {&o.reads, &o.writes})
      for (const int reg : *list)
        if (const auto load = s.loading.find(reg); load != s.loading.end()) {
          if (is_last)
            events_.insert({kUnwaited, i, load->second,
                            fmt::format("{} {} a register that tcgen05.ld may still be loading",
                                        o.text->opcode, list == &o.reads ? "reads" : "writes")});
          s.loading.erase(load);
        }
    if (waits_.contains(i)) s.met = i;
    if (!o.is("tcgen05")) return;
    if (o.has("wait::ld")) s.loading.clear();
    if (o.has("fence::after_thread_sync")) s.met = kNone;
    if (!o.has("ld")) return;
    if (s.met != kNone && is_last)
      events_.insert(
          {kUnfenced, i, s.met,
           "tcgen05.ld comes after the wait for products without tcgen05.fence::after_thread_sync"});
    for (const int reg : o.writes) s.loading[reg] = i;
  }

  LintKernel& kernel_;
  std::set<int> waits_;
  std::set<LintEvent> events_;
};

std::set<LintEvent> walk_tensor_memory(LintKernel& kernel) { return TensorMemoryWalk(kernel).run(); }

}  // namespace

void check_tensor_memory_wait(LintKernel& kernel, Report& report) {
  report_events(kernel, walk_tensor_memory, TensorMemoryWalk::kUnwaited, report);
}
void check_tensor_memory_fence(LintKernel& kernel, Report& report) {
  report_events(kernel, walk_tensor_memory, TensorMemoryWalk::kUnfenced, report);
}

}  // namespace ptxbuilder::analysis
