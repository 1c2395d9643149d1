// Defines mbarriers in shared memory. One thread initialises them, and threads wait for the parity of a
// phase.
#pragma once

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

// An array of mbarriers. A phase of barrier i completes when `arrivals[i]` arrivals and all expected bytes
// have arrived (PTX ISA, mbarrier). The constructor initialises the barriers; sync_threads() or the first
// role makes them visible to other threads.
class Barriers {
 public:
  // Reports refer to the barriers by `names`, such as {"full", "empty"}. Each name covers an equal share of
  // the barriers.
  Barriers(Kernel& kernel, const std::vector<int>& arrivals,
           const std::vector<std::string>& names = {"barrier"}, Where where = Where::here());

  // Returns the address of barrier `index`. The index may be a constant on the host or a value on the device.
  smem operator[](u32 index) const;
  int size() const { return count_; }
  // Returns whether threads of other CTAs arrive at the barriers.
  bool of_cluster() const { return of_cluster_; }

 protected:
  // Reserves memory for `count` barriers. One thread runs `initialize`, which must initialise them.
  Barriers(Kernel& kernel, int count, const std::vector<std::string>& names, bool of_cluster,
           const std::function<void(const Barriers&)>& initialize, Where where);

 private:
  int count_;
  uint32_t offset_ = 0;
  bool of_cluster_ = false;
};

// Spins until the phase of this parity has completed; the parity of the first phase is 0.
void barrier_wait(smem barrier, u32 parity, Where where = Where::here());
// Spins until the phase of this parity has completed. This thread then also sees what threads of other CTAs
// of the cluster wrote before they arrived.
void barrier_wait_cluster(smem barrier, u32 parity, Where where = Where::here());

// Determines whether the first wait on a barrier waits for phase 0 or passes at once. A producer's first wait
// for a stage must pass, because every stage is empty at the start.
enum class FirstWait : uint8_t { waits, passes };

// Tracks, for up to 32 barriers, the phase for which this thread waits next. One register holds the parities,
// one bit for each barrier. Every thread has its own Phases. A thread must wait for every phase, because a
// parity does not distinguish a phase from the second phase after it.
class Phases {
 public:
  explicit Phases(const Barriers& barriers, FirstWait first = FirstWait::waits, Where where = Where::here());

  // Waits until the next phase of barrier `index` has completed, and advances to the phase after it.
  void wait(u32 index, Where where = Where::here());
  // Advances to the following phase without waiting. Use this if another thread has observed that the phase
  // has completed, and both threads have since synchronized at a barrier such as sync_threads().
  void skip(u32 index, Where where = Where::here());
  // Returns the parity of the phase for which the next wait() waits.
  u32 parity(u32 index, Where where = Where::here()) const;

 private:
  Barriers barriers_;
  Var<u32> parities_;
};

// Barriers at which CTAs of a cluster meet. Each CTA has its own barriers. An arrival reaches the barriers of
// all CTAs in line along `axes`: the CTA itself, and the CTAs whose position differs along only one of the
// axes. A phase completes when each warp of each role that calls arrive(), in all CTAs in line, has arrived;
// Kernel::finish() computes this number of arrivals. The CTAs wait for each other before they exit.
class ClusterBarriers : public Barriers {
 public:
  // Makes `count` barriers. Call Kernel::cluster() first. If arrive() is never called, Kernel::finish()
  // throws Error.
  ClusterBarriers(Kernel& kernel, int count, ClusterAxes axes, const std::string& name = "cluster barrier",
                  Where where = Where::here());

  // Arrives at barrier `index` of all CTAs in line. All threads of a warp must call this. A thread that has
  // waited, in any of these CTAs, sees what this warp's threads wrote before they arrived.
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
