// mbarriers in shared memory: one thread initialises them, and threads wait for the parity of a phase.
#pragma once

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

// An array of mbarriers. A phase of barrier i completes when `arrivals[i]` arrivals and all expected bytes
// have arrived (PTX ISA, mbarrier). The constructor initialises the barriers; sync_threads() or the first
// role makes them visible to other threads.
class Barriers {
 public:
  // Reports refer to the barriers by `names`; each name covers an equal share of them: {"full", "empty"}.
  Barriers(Kernel& kernel, const std::vector<int>& arrivals,
           const std::vector<std::string>& names = {"barrier"}, Where where = Where::here());

  // Returns the address of one barrier, given a host or device index.
  smem operator[](u32 index) const;
  int size() const { return count_; }
  // Returns whether threads of other CTAs arrive at the barriers.
  bool of_cluster() const { return of_cluster_; }

 protected:
  // Reserves room for `count` barriers, which `initialize` initialises in one thread.
  Barriers(Kernel& kernel, int count, const std::vector<std::string>& names, bool of_cluster,
           const std::function<void(const Barriers&)>& initialize, Where where);

 private:
  int count_;
  uint32_t offset_ = 0;
  bool of_cluster_ = false;
};

// Spins until the phase of this parity has completed; the parity of the first phase is 0.
void barrier_wait(smem barrier, u32 parity, Where where = Where::here());
// Does the same; afterwards this thread also sees what threads of other CTAs of the cluster did before they
// arrived.
void barrier_wait_cluster(smem barrier, u32 parity, Where where = Where::here());

// Determines what the first wait on a barrier does if nobody has arrived yet: it waits for phase 0, or it
// passes. A producer's wait for a stage must pass, since every stage is empty at the start.
enum class FirstWait : uint8_t { waits, passes };

// Tracks which phase of each of up to 32 barriers this thread waits for next: one register holds the
// parities, one bit for each barrier. Every thread has its own Phases, and must wait for every phase in turn,
// since a phase has the same parity as the second phase after it.
class Phases {
 public:
  explicit Phases(const Barriers& barriers, FirstWait first = FirstWait::waits, Where where = Where::here());

  // Waits until the phase has completed. The next wait is for the following phase.
  void wait(u32 index, Where where = Where::here());
  // Advances to the next phase without waiting. Call it if another thread has seen the phase complete, and
  // this thread has since met that thread at a barrier such as sync_threads().
  void skip(u32 index, Where where = Where::here());
  // Returns the parity of the phase for which the next wait waits.
  u32 parity(u32 index, Where where = Where::here()) const;

 private:
  Barriers barriers_;
  Var<u32> parities_;
};

// Barriers at which CTAs of a cluster meet. Each CTA has its own. An arrival reaches the barriers of all CTAs
// in line along `axes`: the CTA itself, and the CTAs that differ from it along only one of the axes.
// Finishing the kernel determines how many arrivals complete a phase: one for each warp of each role that
// calls arrive(), in all CTAs in line. The CTAs wait for each other before they exit.
class ClusterBarriers : public Barriers {
 public:
  // Call Kernel::cluster() first. If nothing calls arrive(), finishing the kernel throws Error.
  ClusterBarriers(Kernel& kernel, int count, ClusterAxes axes, const std::string& name = "cluster barrier",
                  Where where = Where::here());

  // All threads of a warp call this. A thread of any CTA in line that has waited sees what this warp's
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
