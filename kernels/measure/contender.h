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

// A contender throws this for what is no fault of the GPU or of the others: it is left out, and they go on.
class ContenderError : public Error {
 public:
  using Error::Error;
};

class Contender {
 public:
  virtual ~Contender() = default;

  // The name is as in tables and on the command line: "cuBLASLt", "gemm_pingpong".
  virtual std::string name() const = 0;

  // Why it does not take the problem; "" when it does.
  virtual std::string refuses(const Problem& problem) const = 0;

  // A problem that prepare() will be asked for later: what takes long can begin now.
  virtual void announce(const Problem& /*problem*/) {}

  // Makes all that launches take: kernels, plans, choices that have to be timed. The sets hold data and
  // outlive the launches. Throws Error when it cannot; the contender is then left out of this shape.
  virtual void prepare(const Problem& problem, std::span<const BufferSet> sets) = 0;

  // Queues one launch on the device's stream, without waiting for it. Launches are recorded into graphs, so
  // that what the host does here, such as encoding tensor maps, is not timed.
  virtual void launch(size_t set) = 0;

  // A contender whose launches cannot be recorded here, since another process launches, times that many back
  // to back by itself, over the sets in turn, and gives the microseconds of one. `meanwhile` runs on the host
  // while the GPU works. The others give nothing, since Burst records their launches.
  virtual std::optional<double> own_burst(size_t launches, const std::function<void()>& meanwhile) {
    (void)launches, (void)meanwhile;
    return std::nullopt;
  }

  // The choice for the problem: "128x256x64, 4 stages, cluster 2x1".
  virtual std::string configuration() const = 0;

  // One of the kernels that lead to the project's matrix product, which take part only where they are named.
  virtual bool is_step() const { return false; }

  // One that takes part without being asked for, unless others are named. What is neither this nor a step has
  // been asked for by an option of its own, and always takes part.
  virtual bool is_usual() const { return false; }

  // A peer is not the project's: what it is measured against.
  virtual bool is_peer() const { return false; }
};

using Contenders = std::vector<std::unique_ptr<Contender>>;

// It takes the problems of one operation, such as GemmProblem.
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
