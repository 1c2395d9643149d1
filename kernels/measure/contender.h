// Declares the participants of the benchmark. A contender is a library or a kernel that solves problems on
// the GPU.
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

// A failure that affects neither the GPU nor the other contenders. Only the contender that throws it is left
// out.
class ContenderError : public Error {
 public:
  using Error::Error;
};

class Contender {
 public:
  virtual ~Contender() = default;

  // Returns the name for tables and for the command line, such as "cuBLASLt" or "gemm_pingpong".
  virtual std::string name() const = 0;

  // Returns the reason why the contender does not support the problem, or "" if it supports it.
  virtual std::string refuses(const Problem& problem) const = 0;

  // Announces a problem for a later prepare(), so that long preparations can begin now.
  virtual void announce(const Problem& /*problem*/) {}

  // Prepares everything that launches need, such as kernels and plans, including choices that require
  // measurements. The sets contain data and outlive the launches. If it throws Error, the contender is left
  // out for this shape.
  virtual void prepare(const Problem& problem, std::span<const BufferSet> sets) = 0;

  // Queues one launch on the device's stream, without waiting for it. Launches are recorded into graphs, so
  // that the work of this function on the host, such as encoding tensor maps, is not timed.
  virtual void launch(size_t set) = 0;

  // Times back-to-back launches that rotate among the sets, and returns the microseconds of one launch.
  // `meanwhile` runs on the host while the GPU works. Only a contender whose launches run in another process,
  // and so cannot be recorded, implements this. Other contenders return nullopt, since Burst records and
  // times their launches.
  virtual std::optional<double> own_burst(size_t launches, const std::function<void()>& meanwhile) {
    (void)launches, (void)meanwhile;
    return std::nullopt;
  }

  // Returns a description of how the problem is computed, such as "128x256x64, 4 stages, cluster 2x1".
  virtual std::string configuration() const = 0;

  // Returns true for the kernels that are steps towards the project's matrix product. They take part only if
  // they are named.
  virtual bool is_step() const { return false; }

  // Returns true for a contender that takes part by default, unless others are named. A contender that is
  // neither usual nor a step was requested with a specific option, and always takes part.
  virtual bool is_usual() const { return false; }

  // Returns true for a contender from another project. This project is compared with such contenders.
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
