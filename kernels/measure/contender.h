// Who takes part in the benchmark: a library or a kernel that multiplies matrices on the GPU.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/measure/gpu.h"
#include "kernels/measure/problem.h"
#include "runtime/buffer.h"

namespace ptxbuilder::bench {

// What a contender meets that is no fault of the GPU or of the others: it is left out, and they go on.
class ContenderError : public Error {
 public:
  using Error::Error;
};

// The matrices of one problem, each with the strides that GemmProblem says.
struct BufferSet {
  runtime::View a, b, d;
};

class Contender {
 public:
  virtual ~Contender() = default;

  // As in tables and on the command line: "cuBLASLt", "gemm_pingpong".
  virtual std::string name() const = 0;

  // Why it does not take the problem; "" when it does.
  virtual std::string refuses(const GemmProblem& problem) const = 0;

  // A problem that prepare() will be asked for later: what takes long can begin now.
  virtual void announce(const GemmProblem& /*problem*/) {}

  // Makes all that launches take: kernels, plans, choices that have to be timed. The sets hold data and
  // outlive the launches. Throws Error when it cannot; the contender is then left out of this shape.
  virtual void prepare(const GemmProblem& problem, std::span<const BufferSet> sets) = 0;

  // Queues one product on the device's stream, without waiting for it. Launches are recorded into graphs, so
  // that what the host does here, such as encoding tensor maps, is not timed.
  virtual void launch(size_t set) = 0;

  // Of a contender whose launches cannot be recorded here, since another process launches: that many products
  // back to back, over the sets in turn, timed by itself; the microseconds of one. `meanwhile` runs on the
  // host while the GPU works. Nothing of the others, whose launches Burst records.
  virtual std::optional<double> own_burst(size_t launches, const std::function<void()>& meanwhile) {
    (void)launches, (void)meanwhile;
    return std::nullopt;
  }

  // What was chosen for the problem: "128x256x64, 4 stages, cluster 2x1".
  virtual std::string configuration() const = 0;

  // One of the kernels that lead to the project's matrix product, which take part only where they are named.
  virtual bool is_step() const { return false; }

  // One that takes part without being asked for, unless others are named. What is neither this nor a step has
  // been asked for by an option of its own, and always takes part.
  virtual bool is_usual() const { return false; }

  // Not the project's: what it is measured against.
  virtual bool is_peer() const { return false; }
};

struct OurOptions {
  std::string ptxas;              // a file; else it is searched
  bool driver_assembles = false;  // though there is a ptxas
  bool cache = true;
  std::vector<std::string> tiles;  // to compare, beside the one that is chosen: see kernels/gemm/config.h
  int candidates = 0;              // of the model's, the first so many too
  int diverse = 0;                 // and so many of those that it holds for up to half slower than its first
  bool tuned = false;              // and Matmul, which measures its tiles when a shape comes first
  uint64_t seed = 0;               // by which those are drawn
};

// The project's own contenders. The first is the one that stands for it; the others are variants to compare.
// They launch on `gpu`, which has to outlive them.
std::vector<std::unique_ptr<Contender>> our_contenders(const Gpu& gpu, const OurOptions& options);

}  // namespace ptxbuilder::bench
