// mbarriers in shared memory: one thread makes them once, and threads wait for a parity.
#pragma once

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

// An array of mbarriers. A phase of barrier i completes after `arrivals[i]` arrivals and all
// expected bytes (PTX ISA, mbarrier). The constructor initialises the barriers; sync_threads() or
// the first role publishes them.
class Barriers {
 public:
  // Reports use `names`; each name is for an equal share of the barriers: {"full", "empty"}.
  Barriers(Kernel& kernel, const std::vector<int>& arrivals,
           const std::vector<std::string>& names = {"barrier"}, Where where = Where::here());

  // Returns the address of one barrier, given a host or device index.
  smem operator[](u32 index) const;
  int size() const { return count_; }
  // Returns whether threads of other CTAs arrive.
  bool of_cluster() const { return of_cluster_; }

 protected:
  // Reserves room for `count` barriers, which `initialize` then initialises in one thread.
  Barriers(Kernel& kernel, int count, const std::vector<std::string>& names, bool of_cluster,
           const std::function<void(const Barriers&)>& initialize, Where where);

 private:
  int count_;
  uint32_t offset_ = 0;
  bool of_cluster_ = false;
};

// Spins until the phase of `parity` (0 for the first) has completed.
void barrier_wait(smem barrier, u32 parity, Where where = Where::here());
// Also waits; afterwards this thread sees what threads of other CTAs of the cluster did before they arrived.
void barrier_wait_cluster(smem barrier, u32 parity, Where where = Where::here());

// This determines what the first wait on a barrier does if nobody has arrived yet: it waits for phase 0, or
// it passes, as the producer's wait for a stage must, since every stage is empty at the start.
enum class FirstWait : uint8_t { waits, passes };

// Phases track which phase of each of up to 32 barriers this thread waits for next: one register holds the
// parity of each phase as a bit. Every thread has its own Phases and must wait for every phase in turn, since
// a phase and the phase after the next have the same parity.
class Phases {
 public:
  explicit Phases(const Barriers& barriers, FirstWait first = FirstWait::waits, Where where = Where::here());

  // Waits until the phase has completed. The next wait is for the phase after it.
  void wait(u32 index, Where where = Where::here());
  // Goes on to the next phase without waiting. Call it when another thread has seen the phase complete, and
  // the two threads have since met at a barrier such as sync_threads().
  void skip(u32 index, Where where = Where::here());
  // Returns the parity of the phase that the next wait is for.
  u32 parity(u32 index, Where where = Where::here()) const;

 private:
  Barriers barriers_;
  Var<u32> parities_;
};

// Barriers at which CTAs of a cluster meet. Each CTA has its own. An arrival reaches the barriers of all CTAs
// in line along `axes`: of the CTA itself, and of the CTAs that differ from it along only one of the axes.
// The number of arrivals that complete a phase is known when the kernel is finished: one for each warp of
// each role that calls arrive(), in all CTAs in line. The CTAs wait for each other before they end.
class ClusterBarriers : public Barriers {
 public:
  // Call Kernel::cluster() first. If nothing calls arrive(), finishing the kernel throws Error.
  ClusterBarriers(Kernel& kernel, int count, ClusterAxes axes, const std::string& name = "cluster barrier",
                  Where where = Where::here());

  // All threads of a warp call this. Once a thread of any of the CTAs has waited, it sees what the warp's
  // threads did before they arrived.
  void arrive(u32 index, Where where = Where::here());

  // Returns the number of CTAs whose arrivals complete a phase of one barrier.
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
