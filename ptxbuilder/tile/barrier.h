// mbarriers in shared memory: made once by one thread, waited for by parity.
#pragma once

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

// Barriers in a row; a phase of the i-th completes after `arrivals[i]` arrivals and all expected bytes (PTX
// ISA, mbarrier). Initialised here; sync_threads() or the first role publishes them.
class Barriers {
 public:
  // Reports call them by `names`, each of which is for an equal share of them: {"full", "empty"}.
  Barriers(Kernel& kernel, const std::vector<int>& arrivals,
           const std::vector<std::string>& names = {"barrier"}, Where where = Where::here());

  // The address of one, by a host or device index.
  smem operator[](u32 index) const;
  int size() const { return count_; }
  // Whether threads of other CTAs arrive.
  bool of_cluster() const { return of_cluster_; }

 protected:
  // Room for `count` of them, which `initialize` makes, in one thread.
  Barriers(Kernel& kernel, int count, const std::vector<std::string>& names, bool of_cluster,
           const std::function<void(const Barriers&)>& initialize, Where where);

 private:
  int count_;
  uint32_t offset_ = 0;
  bool of_cluster_ = false;
};

// Spins until the phase of `parity` (0 for the first) has completed.
void barrier_wait(smem barrier, u32 parity, Where where = Where::here());

// What a barrier's first wait finds when nobody has arrived yet: it waits for phase 0, or passes, as a
// producer's for a stage that is empty from the start.
enum class FirstWait : uint8_t { waits, passes };

// Which phase of each of up to 32 barriers this thread waits for next: a register with a bit for each, its
// parity. Every thread has a Phases of its own, and waits for every phase in turn, since a barrier does not
// tell a phase from the next but one.
class Phases {
 public:
  explicit Phases(const Barriers& barriers, FirstWait first = FirstWait::waits, Where where = Where::here());

  // Waits until the phase has completed; the next wait is for the phase behind it.
  void wait(u32 index, Where where = Where::here());
  // Without waiting: another thread has seen the phase completed, and says so by a barrier of threads.
  void skip(u32 index, Where where = Where::here());
  // Of the phase that the next wait is for.
  u32 parity(u32 index, Where where = Where::here()) const;

 private:
  Barriers barriers_;
  Var<u32> parities_;
};

// Barriers at which CTAs of a cluster meet: each CTA has its own, and an arrival reaches those of all CTAs in
// line with it along `axes`, itself included: those that differ from it along one of them alone. How many
// arrivals complete a phase follows when the kernel is finished: one of each warp of each role that calls
// arrive(), of all CTAs in line. CTAs meet before they end.
class ClusterBarriers : public Barriers {
 public:
  // Call Kernel::cluster before. Throws Error when nobody arrives.
  ClusterBarriers(Kernel& kernel, int count, ClusterAxes axes, const std::string& name = "cluster barrier",
                  Where where = Where::here());

  // For all threads of a warp: what they did before is seen by whoever has waited, in all CTAs.
  void arrive(u32 index, Where where = Where::here());

  // CTAs whose arrivals complete a phase of one barrier.
  int ctas_in_line() const { return ctas_in_line_; }

 private:
  struct Arrivals;
  ClusterBarriers(Kernel& kernel, int count, ClusterAxes axes, const std::string& name,
                  std::shared_ptr<Arrivals> arrivals, Where where);

  ClusterAxes axes_;
  int ctas_in_line_;
  std::shared_ptr<Arrivals> arrivals_;
};

}  // namespace ptxbuilder
