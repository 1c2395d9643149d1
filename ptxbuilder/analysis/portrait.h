// Describes a kernel in terms that its author would use. The description covers the roles of the warps, the
// barriers for which warps wait, and the copies and products in the loops.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ptxbuilder/analysis/matrix_descriptor.h"

namespace ptxbuilder::analysis {

// A group of warps that take the same branches.
struct Role {
  std::string name;                       // such as "producer", "consumer" or "warps 0-3"
  std::vector<int> warps;                 // in ascending order
  std::optional<int64_t> registers = {};  // from setmaxnreg
  std::vector<int> blocks = {};           // blocks that the role's warps can reach, except blocks that all
                                          // warps can reach
};

// A role's use of the barriers in an array.
struct BarrierUse {
  enum class Kind : uint8_t { arrives, expects, copies, waits };
  Kind kind;
  int role;  // kNone if several roles execute the instruction
  int operation;
  Sum amount = {};      // expected bytes, or arrivals
  bool remote = false;  // true if the barriers are in another CTA of the cluster
};

std::string_view name(BarrierUse::Kind kind);  // "arrives"

// Adjacent mbarriers that one instruction accesses, indexed by the stage of a ring.
struct BarrierArray {
  // "full" if copies signal the barriers, "empty" if the producer waits for them, or "other".
  std::string name = {};
  Sum base;  // address of the first barrier, in bytes in shared memory
  int64_t count = 1;
  std::optional<int64_t> arrivals = {};  // arrivals that complete a phase, from mbarrier.init
  std::vector<BarrierUse> uses = {};
};

// A group of consecutive instructions of a loop that differ only in their addresses.
struct Step {
  std::string text;
  int first = kNone;  // first instruction of the group
  int times = 1;
};

struct Mainloop {
  int loop = kNone, role = kNone;
  uint32_t first_line = 0, last_line = 0;  // in the PTX
  std::vector<Step> steps = {};
};

struct Portrait {
  std::string kernel;
  int64_t threads = 0;  // number of threads of a CTA; 0 if the kernel does not declare it
  std::vector<Role> roles;
  std::vector<BarrierArray> barriers;
  std::vector<Mainloop> loops;        // innermost loops that copy or multiply asynchronously
  std::vector<int> products_outside;  // matrix instructions outside these loops
  std::vector<std::string> unknowns;  // descriptions of code that could not be followed, with line numbers
};

Portrait portrait(const Code& code, const Graph& graph, Values& values);

// All information about a kernel that is known without running it.
struct KernelAnalysis {
  // An empty name selects the module's only kernel. Throws Error under the same conditions as Code::of.
  explicit KernelAnalysis(std::shared_ptr<const ptx_text::Module> module, std::string_view kernel = "");
  // Selects how variables of two modules are matched. by_name requires that host-visible variables have the
  // same names in both modules.
  enum class Variables : uint8_t { by_use, by_name };
  KernelAnalysis(std::shared_ptr<const ptx_text::Module> module, std::string_view kernel,
                 Variables variables);
  // Analyses a function of the same module that the kernel uses.
  KernelAnalysis(const KernelAnalysis& kernel, const ptx_text::Function& function);
  // Parses PTX text first. Also throws Error if ptx_text::parse() rejects the text.
  explicit KernelAnalysis(std::string_view ptx, std::string_view kernel = "");
  KernelAnalysis(const KernelAnalysis&) = delete;

  const std::shared_ptr<const ptx_text::Module> module;
  const Code code;
  const Graph graph;
  const std::shared_ptr<Numbering> numbering;
  Values values;
  const Portrait portrait;
};

// Returns whether the host-visible variables of both modules have the same names.
bool have_same_variables(const ptx_text::Module& a, const ptx_text::Module& b);

// Returns the portrait as a page of text.
std::string text(const KernelAnalysis& kernel);

}  // namespace ptxbuilder::analysis
