// One kernel as its author would describe it: which warps do what, how they wait for each other, and what its
// loops copy and multiply.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ptxbuilder/analysis/matrix_descriptor.h"

namespace ptxbuilder::analysis {

// Warps that take the same branches.
struct Role {
  std::string name;                       // "producer", "consumer", "warps 0-3"
  std::vector<int> warps;                 // ascending
  std::optional<int64_t> registers = {};  // of setmaxnreg
  std::vector<int> blocks = {};           // that they can reach and not all others do
};

// A role does this with the barriers of an array.
struct BarrierUse {
  enum class Kind : uint8_t { arrives, expects, copies, waits };
  Kind kind;
  int role;  // kNone: of no role alone
  int operation;
  Sum amount = {};      // bytes that are expected, or arrivals
  bool remote = false;  // of another CTA of the cluster
};

std::string_view name(BarrierUse::Kind kind);  // "arrives"

// Mbarriers side by side that one instruction reaches, by the stage of a ring.
struct BarrierArray {
  // These signal it: "full" where copies do, "empty" where the producer waits for it, else "other".
  std::string name = {};
  Sum base;  // of its first barrier: bytes in shared memory
  int64_t count = 1;
  std::optional<int64_t> arrivals = {};  // that a phase expects, from mbarrier.init
  std::vector<BarrierUse> uses = {};
};

// Instructions of a loop that follow each other and differ by their addresses alone.
struct Step {
  std::string text;
  int first = kNone;  // the first instruction
  int times = 1;
};

struct Mainloop {
  int loop = kNone, role = kNone;
  uint32_t first_line = 0, last_line = 0;  // of the PTX
  std::vector<Step> steps = {};
};

struct Portrait {
  std::string kernel;
  int64_t threads = 0;  // 0: the kernel does not say
  std::vector<Role> roles;
  std::vector<BarrierArray> barriers;
  std::vector<Mainloop> loops;        // innermost ones that copy or multiply asynchronously
  std::vector<int> products_outside;  // the matrix instructions that are in none of them
  std::vector<std::string> unknowns;  // what could not be followed, each with its line
};

Portrait portrait(const Code& code, const Graph& graph, Values& values);

// A kernel with all that is known of it without running it.
struct KernelAnalysis {
  // An empty name is the module's only kernel. Throws as Code::of does.
  explicit KernelAnalysis(std::shared_ptr<const ptx_text::Module> module, std::string_view kernel = "");
  // Names tell which variable is which if two modules have the same names of those that the host can reach.
  enum class Variables : uint8_t { by_use, by_name };
  KernelAnalysis(std::shared_ptr<const ptx_text::Module> module, std::string_view kernel,
                 Variables variables);
  // A function that the kernel uses, of the same module.
  KernelAnalysis(const KernelAnalysis& kernel, const ptx_text::Function& function);
  // This takes PTX text, and throws what ptx_text::parse throws too.
  explicit KernelAnalysis(std::string_view ptx, std::string_view kernel = "");
  KernelAnalysis(const KernelAnalysis&) = delete;

  const std::shared_ptr<const ptx_text::Module> module;
  const Code code;
  const Graph graph;
  const std::shared_ptr<Numbering> numbering;
  Values values;
  const Portrait portrait;
};

// This says whether both modules have the same variables that the host can reach, by their names.
bool have_same_variables(const ptx_text::Module& a, const ptx_text::Module& b);

// The portrait on a page.
std::string text(const KernelAnalysis& kernel);

}  // namespace ptxbuilder::analysis
