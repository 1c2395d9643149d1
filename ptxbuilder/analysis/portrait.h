// Describes a kernel as its author would: what each warp does, how warps wait for each other, and what loops
// copy and multiply.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ptxbuilder/analysis/matrix_descriptor.h"

namespace ptxbuilder::analysis {

// A group of warps that take the same branches.
struct Role {
  std::string name;                       // "producer", "consumer", "warps 0-3"
  std::vector<int> warps;                 // in ascending order
  std::optional<int64_t> registers = {};  // from setmaxnreg
  std::vector<int> blocks = {};           // blocks that the role's warps can reach, but not all other warps
};

// A role's use of the barriers in an array.
struct BarrierUse {
  enum class Kind : uint8_t { arrives, expects, copies, waits };
  Kind kind;
  int role;  // kNone if the use does not belong to a single role
  int operation;
  Sum amount = {};      // expected bytes, or arrivals
  bool remote = false;  // in another CTA of the cluster
};

std::string_view name(BarrierUse::Kind kind);  // "arrives"

// Adjacent mbarriers that one instruction reaches, indexed with the stage of a ring.
struct BarrierArray {
  // "full" if copies signal the barriers, "empty" if the producer waits for them, or "other".
  std::string name = {};
  Sum base;  // address of the first barrier, in bytes in shared memory
  int64_t count = 1;
  std::optional<int64_t> arrivals = {};  // arrivals that complete a phase, from mbarrier.init
  std::vector<BarrierUse> uses = {};
};

// Consecutive instructions of a loop that differ only in their addresses.
struct Step {
  std::string text;
  int first = kNone;  // first instruction
  int times = 1;
};

struct Mainloop {
  int loop = kNone, role = kNone;
  uint32_t first_line = 0, last_line = 0;  // in the PTX
  std::vector<Step> steps = {};
};

struct Portrait {
  std::string kernel;
  int64_t threads = 0;  // 0 if the kernel does not declare them
  std::vector<Role> roles;
  std::vector<BarrierArray> barriers;
  std::vector<Mainloop> loops;        // innermost loops that copy or multiply asynchronously
  std::vector<int> products_outside;  // matrix instructions outside these loops
  std::vector<std::string> unknowns;  // what the analysis could not follow, each with its line
};

Portrait portrait(const Code& code, const Graph& graph, Values& values);

// A kernel, and everything that is known about it without running it.
struct KernelAnalysis {
  // An empty name selects the module's only kernel. Throws the errors of Code::of.
  explicit KernelAnalysis(std::shared_ptr<const ptx_text::Module> module, std::string_view kernel = "");
  // Selects how variables of two modules are matched. By name is possible only if both have the same names of
  // host-visible variables.
  enum class Variables : uint8_t { by_use, by_name };
  KernelAnalysis(std::shared_ptr<const ptx_text::Module> module, std::string_view kernel,
                 Variables variables);
  // Analyses a function of the same module that the kernel uses.
  KernelAnalysis(const KernelAnalysis& kernel, const ptx_text::Function& function);
  // Parses PTX text first; also throws the errors of ptx_text::parse.
  explicit KernelAnalysis(std::string_view ptx, std::string_view kernel = "");
  KernelAnalysis(const KernelAnalysis&) = delete;

  const std::shared_ptr<const ptx_text::Module> module;
  const Code code;
  const Graph graph;
  const std::shared_ptr<Numbering> numbering;
  Values values;
  const Portrait portrait;
};

// Returns whether both modules have the same names of host-visible variables.
bool have_same_variables(const ptx_text::Module& a, const ptx_text::Module& b);

// Returns the portrait as a page of text.
std::string text(const KernelAnalysis& kernel);

}  // namespace ptxbuilder::analysis
