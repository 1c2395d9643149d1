// The participants of the benchmark: a library or a kernel that computes problems on the GPU.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/measure/gpu.h"
#include "kernels/measure/workload.h"

namespace ptxbuilder::bench {

// A failure that concerns neither the GPU nor the other contenders: only the contender that throws it is left
// out.
class ContenderError : public Error {
 public:
  using Error::Error;
};

class Contender {
 public:
  virtual ~Contender() = default;

  // Returns the name in tables and on the command line: "cuBLASLt", "gemm_pingpong".
  virtual std::string name() const = 0;

  // Returns why the contender does not support the problem, or "" if it does.
  virtual std::string refuses(const Problem& problem) const = 0;

  // Announces a problem for a later prepare(), so that long preparations can begin now.
  virtual void announce(const Problem& /*problem*/) {}

  // Creates everything that launches need, such as kernels, plans, and choices that must be timed. The sets
  // contain data and outlive the launches. Throws Error on failure; the contender is then left out for this
  // shape.
  virtual void prepare(const Problem& problem, std::span<const BufferSet> sets) = 0;

  // Queues one launch on the device's stream, without waiting for it. Launches are recorded into graphs, so
  // that the host's work in this function, such as encoding tensor maps, is not timed.
  virtual void launch(size_t set) = 0;

  // Times launches back to back, over the sets in turn, and returns the microseconds of one launch. Only a
  // contender whose launches cannot be recorded here, because another process launches them, implements this.
  // `meanwhile` runs on the host while the GPU works. Other contenders return nothing, since Burst records
  // their launches.
  virtual std::optional<double> own_burst(size_t launches, const std::function<void()>& meanwhile) {
    (void)launches, (void)meanwhile;
    return std::nullopt;
  }

  // Returns a description of how the problem is computed, such as "128x256x64, 4 stages, cluster 2x1".
  virtual std::string configuration() const = 0;

  // Returns true for the kernels that lead up to the project's matrix product; they take part only if they
  // are named.
  virtual bool is_step() const { return false; }

  // Returns true for a contender that takes part by default, unless others are named. A contender that is
  // neither usual nor a step was requested with its own option, and always takes part.
  virtual bool is_usual() const { return false; }

  // Returns true for a contender from another project, which this project is compared with.
  virtual bool is_peer() const { return false; }
};

using Contenders = std::vector<std::unique_ptr<Contender>>;

// A contender for the problems of one operation, such as GemmProblem.
template <class P>
class ContenderOf : public Contender {
 public:
  virtual std::string refuses(const P& problem) const = 0;
  virtual void announce(const P& /*problem*/) {}
  virtual void prepare(const P& problem, std::span<const typename P::Set> sets) = 0;

  std::string refuses(const Problem& problem) const final {
    const P* p = std::get_if<P>(&problem);
    return p ? refuses(*p) : std::string("it takes ") + P::kKind + " alone";
  }
  void announce(const Problem& problem) final {
    if (const P* p = std::get_if<P>(&problem)) announce(*p);
  }
  void prepare(const Problem& problem, std::span<const BufferSet> sets) final {
    std::vector<typename P::Set> named;
    for (const BufferSet& set : sets) named.push_back(P::set(set));
    prepare(std::get<P>(problem), named);
  }
};

}  // namespace ptxbuilder::bench
