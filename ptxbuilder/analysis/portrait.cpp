#include "ptxbuilder/analysis/portrait.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "ptxbuilder/analysis/thread_values.h"
#include "ptxbuilder/error.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::analysis {
namespace {

constexpr int kWarp = hopper::warp_threads;
constexpr int64_t kBarrierBytes = 8;

std::string ranges(const std::vector<int>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[i]);
    if (last > i) text += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  return text;
}

bool is_tensor_core(const Operation& o) { return o.is_wgmma() || (o.is("mma") && o.has("sync")); }

class Painter {
 public:
  Painter(const Code& code, const Graph& graph, Values& values)
      : code_(code), graph_(graph), values_(values) {}

  Portrait run() {
    p_.kernel = code_.name;
    find_threads();
    find_roles();
    find_barriers();
    find_loops();
    find_unknown_instructions();
    return std::move(p_);
  }

 private:
  const Operation& operation(int i) const { return code_.operations[at(i)]; }
  Sum operand(int i, size_t n) {
    return n < operation(i).operands.size() ? values_.of(i, operation(i).operands[n]) : Sum{};
  }

  void find_threads() {
    const std::array<int64_t, 3> shape = code_.cta_shape();
    p_.threads = shape[0] * shape[1] * shape[2];
    if (p_.threads == 0 && code_.function->entry)
      p_.unknowns.push_back("the kernel has neither .maxntid nor .reqntid: its roles are not known");
    if (p_.threads > 1024) p_.threads = 0, p_.unknowns.push_back("more than 1024 threads");
  }

  // Returns the blocks that a warp may reach for any of the unknown values.
  std::vector<int> reached(int warp) {
    std::vector<ThreadValues> lanes;
    for (int lane = 0; lane < kWarp; ++lane) lanes.emplace_back(values_, warp * kWarp + lane);
    std::vector<bool> met(graph_.blocks.size(), false);
    std::vector<int> waiting = {0};
    met[0] = true;
    while (!waiting.empty()) {
      const int block = waiting.back();
      waiting.pop_back();
      for (int next : next_of(block, lanes))
        if (!met[at(next)]) met[at(next)] = true, waiting.push_back(next);
    }
    std::vector<int> blocks;
    for (size_t b = 0; b < met.size(); ++b)
      if (met[b]) blocks.push_back(static_cast<int>(b));
    return blocks;
  }

  std::vector<int> next_of(int block, std::vector<ThreadValues>& lanes) {
    const Block& b = graph_.blocks[at(block)];
    if (b.first == b.last) return {};
    const int last = b.last - 1;
    const Operation& o = operation(last);
    if (o.guard == kNone || o.targets.size() != 1) return b.successors;
    const Sum predicate = values_.before(last, o.guard);
    bool taken = false, passed = false;
    for (ThreadValues& lane : lanes) {
      const std::optional<int64_t> value = lane(predicate);
      if (!value) return b.successors;
      ((*value != 0) != o.negated ? taken : passed) = true;
    }
    std::vector<int> next;
    for (int successor : b.successors) {
      const bool is_target = graph_.blocks[at(successor)].first == o.targets[0];
      if (is_target ? taken : passed) next.push_back(successor);
    }
    return next;
  }

  // Warps form one role if their register counts are equal, and if all of them load, all multiply, or none
  // loads or multiplies. Whether they store has no effect on their role.
  void find_roles() {
    constexpr int64_t kMostDecisions = 20'000'000;  // a limit that is reached after a few seconds
    int64_t branches = 0;                           // number of branches that may depend on a thread's number
    for (int block : graph_.order) {
      const Block& b = graph_.blocks[at(block)];
      if (b.first == b.last || operation(b.last - 1).guard == kNone) continue;
      const Sum predicate = values_.before(b.last - 1, operation(b.last - 1).guard);
      branches += std::all_of(predicate.terms.begin(), predicate.terms.end(),
                              [&](const auto& term) { return values_.place_in_thread(term.first) != kNone; });
    }
    if (branches * p_.threads > kMostDecisions) {
      p_.unknowns.push_back(fmt::format(
          "which warps take which of {} branches: there are too many branches to follow", branches));
      return;
    }
    std::map<std::vector<int>, std::vector<int>> warps_of;  // warps, indexed by the blocks that they reach
    for (int warp = 0; warp < p_.threads / kWarp; ++warp) warps_of[reached(warp)].push_back(warp);
    for (const auto& [blocks, warps] : warps_of) {
      Role role{.name = "", .warps = warps, .blocks = blocks};
      bool multiplies = false, loads = false;
      for (int b : blocks)
        for (int i = graph_.blocks[at(b)].first; i < graph_.blocks[at(b)].last; ++i) {
          multiplies |= is_tensor_core(operation(i));
          loads |= operation(i).is_bulk_load();
          if (const Sum registers = operand(i, 0); operation(i).is("setmaxnreg") && registers.is_constant())
            role.registers = registers.constant;
        }
      role.name = multiplies && loads ? "all" : multiplies ? "consumer" : loads ? "producer" : "other";
      const auto same = std::find_if(p_.roles.begin(), p_.roles.end(), [&](const Role& r) {
        return r.name == role.name && r.registers == role.registers;
      });
      if (same == p_.roles.end()) {
        p_.roles.push_back(std::move(role));
        continue;
      }
      std::vector<int> both;
      std::set_union(same->blocks.begin(), same->blocks.end(), blocks.begin(), blocks.end(),
                     std::back_inserter(both));
      same->blocks = std::move(both);
      same->warps.insert(same->warps.end(), warps.begin(), warps.end());
      std::sort(same->warps.begin(), same->warps.end());
    }
    std::sort(p_.roles.begin(), p_.roles.end(),
              [](const Role& x, const Role& y) { return x.warps < y.warps; });
    // Blocks that all roles reach are removed from every role.
    std::vector<size_t> roles_of(graph_.blocks.size(), 0);
    for (const Role& role : p_.roles)
      for (int b : role.blocks) ++roles_of[at(b)];
    for (Role& role : p_.roles)
      std::erase_if(role.blocks, [&](int b) { return roles_of[at(b)] == p_.roles.size(); });
  }

  // Returns the only role that reaches a block, or kNone if no role or several roles reach it.
  int role_of(int block) const {
    int found = kNone;
    for (int r = 0; at(r) < p_.roles.size(); ++r) {
      const std::vector<int>& blocks = p_.roles[at(r)].blocks;
      if (!std::binary_search(blocks.begin(), blocks.end(), block)) continue;
      if (found != kNone) return kNone;
      found = r;
    }
    return p_.roles.size() == 1 ? 0 : found;
  }

  std::string line_of(int i) const { return fmt::format("line {}", operation(i).at.line); }

  // The array to which an mbarrier belongs: the address of its first barrier, and its length.
  struct Reached {
    Sum base;
    int64_t count = 1;  // length of the array; 0 if it is not known
    bool remote = false;
  };
  Reached barriers_at(Sum address) const {
    Reached reached;
    if (const Atom* mapped = values_.only_atom(address, "mapa")) {
      reached.remote = true;
      address = mapped->inputs[0];
    }
    for (const auto& [number, factor] : address.terms) {
      const Atom& a = values_.atom(number);
      const std::optional<int64_t> mask =
          a.name.starts_with("and") && a.inputs.size() == 2 && a.inputs[1].is_constant()
              ? std::optional(a.inputs[1].constant)
              : std::nullopt;
      const bool masked = factor == 1 && mask && *mask % kBarrierBytes == 0;  // for example, & 24
      if (a.kind == Atom::Kind::stage && factor == kBarrierBytes)
        reached.count = a.inputs[1].constant;
      else if (mask && *mask > 0 && factor == kBarrierBytes && (*mask & (*mask + 1)) == 0)
        reached.count = *mask + 1;  // for example, 8 * (i & 3)
      else if (factor % kBarrierBytes == 0 || masked)
        reached.count = 0, reached.base.constant += is_stage_ahead(a) ? factor : 0;
      else
        reached.base.terms.emplace_back(number, factor);
    }
    reached.base.constant += address.constant;
    return reached;
  }

  // Recognises selp(stages, stage, stage == 0), which equals the number of the previous stage plus 1.
  bool is_stage_ahead(const Atom& a) const {
    return a.name.starts_with("selp") && a.inputs.size() == 3 && a.inputs[0].is_constant() &&
           a.inputs[0].constant > 1 && !a.inputs[1].is_constant();
  }

  // Finds the array for an address that depends on the thread's number, in all warps of the role.
  std::optional<Reached> barriers_of_warps(Sum address, int role) const {
    Reached reached;
    if (const Atom* mapped = values_.only_atom(address, "mapa")) {
      reached.remote = true;
      address = mapped->inputs[0];
    }
    Sum rest{.constant = address.constant};
    for (const auto& term : address.terms)
      (values_.atom(term.first).kind == Atom::Kind::address ? reached.base : rest).terms.push_back(term);
    std::optional<int64_t> least, greatest;
    for (int warp : role == kNone ? all_warps() : p_.roles[at(role)].warps) {
      const std::optional<int64_t> offset = ThreadValues(values_, warp * kWarp)(rest);
      if (!offset) return std::nullopt;
      least = std::min(least.value_or(*offset), *offset);
      greatest = std::max(greatest.value_or(*offset), *offset);
    }
    if (!least) return std::nullopt;
    reached.base.constant = *least;
    reached.count = (*greatest - *least) / kBarrierBytes + 1;
    return reached;
  }
  std::vector<int> all_warps() const {
    std::vector<int> warps;
    for (int warp = 0; warp < p_.threads / kWarp; ++warp) warps.push_back(warp);
    return warps;
  }

  void find_barriers() {
    struct Found {
      Reached reached;
      BarrierUse use;
    };
    std::vector<Found> uses;
    std::map<std::pair<std::vector<std::pair<int, int64_t>>, int64_t>, std::optional<int64_t>> arrivals;
    for (int block : graph_.order)
      for (int i = graph_.blocks[at(block)].first; i < graph_.blocks[at(block)].last; ++i) {
        const Operation& o = operation(i);
        const bool loads = o.is_bulk_load();
        if (!o.is("mbarrier") && !loads) continue;
        std::vector<size_t> addresses;
        for (size_t n = 0; n < o.operands.size(); ++n)
          if (o.operands[n].kind == Value::Kind::address) addresses.push_back(n);
        if (addresses.empty()) continue;
        const size_t place = loads ? addresses.back() : addresses[0];
        Reached reached = barriers_at(operand(i, place));
        const bool is_plain = std::all_of(
            reached.base.terms.begin(), reached.base.terms.end(),
            [&](const auto& term) { return values_.atom(term.first).kind == Atom::Kind::address; });
        if (reached.count == 0 || !is_plain)
          if (auto of_warps = barriers_of_warps(operand(i, place), role_of(block)))
            reached = std::move(*of_warps);
        if (o.has("init")) {
          const Sum count = operand(i, place + 1);
          arrivals[{reached.base.terms, reached.base.constant}] =
              count.is_constant() ? std::optional(count.constant) : std::nullopt;
          continue;
        }
        if (o.has("inval")) continue;
        using enum BarrierUse::Kind;
        BarrierUse use{.kind = loads                            ? copies
                               : o.has("try_wait", "test_wait") ? waits
                               : o.has("expect_tx")             ? expects
                                                                : arrives,
                       .role = role_of(block),
                       .operation = i,
                       .amount = {},
                       .remote = reached.remote};
        if (use.kind == expects) use.amount = operand(i, place + 1);
        uses.push_back({reached, use});
      }
    // Arrays that are indexed by a ring's stage precede single barriers.
    std::stable_sort(uses.begin(), uses.end(),
                     [](const Found& a, const Found& b) { return a.reached.count > b.reached.count; });
    for (const Found& f : uses) {
      const auto inside = [&](const BarrierArray& array) {
        const int64_t offset = f.reached.base.constant - array.base.constant;
        return array.base.terms == f.reached.base.terms && offset >= 0 &&
               (f.reached.count > 0 ? offset < array.count * kBarrierBytes : offset == 0);
      };
      auto array = std::find_if(p_.barriers.begin(), p_.barriers.end(), inside);
      if (array == p_.barriers.end()) {
        const auto known = arrivals.find({f.reached.base.terms, f.reached.base.constant});
        if (known == arrivals.end() || f.reached.count == 0) {
          p_.unknowns.push_back(fmt::format("which barrier {} accesses at {}: {}",
                                            operation(f.use.operation).text->opcode, line_of(f.use.operation),
                                            values_.text(f.reached.base)));
          continue;
        }
        p_.barriers.push_back({.base = f.reached.base, .count = f.reached.count, .arrivals = known->second});
        array = p_.barriers.end() - 1;
      }
      array->uses.push_back(f.use);
    }
    std::stable_sort(p_.barriers.begin(), p_.barriers.end(),
                     [&](const BarrierArray& a, const BarrierArray& b) {
                       return values_.place_in_memory(a.base) < values_.place_in_memory(b.base);
                     });
    std::map<std::string, int> named;
    for (BarrierArray& array : p_.barriers) {
      bool copies = false, loader_waits = false;
      for (const BarrierUse& use : array.uses) {
        copies |= use.kind == BarrierUse::Kind::copies;
        loader_waits |= use.kind == BarrierUse::Kind::waits && use.role != kNone && loads(use.role);
      }
      array.name = copies ? "full" : loader_waits ? "empty" : "other";
      if (const int n = ++named[array.name]; n > 1) array.name += fmt::format(" {}", n);
    }
  }

  // Returns whether a role has copies that a barrier counts.
  bool loads(int role) const {
    for (const BarrierArray& array : p_.barriers)
      for (const BarrierUse& use : array.uses)
        if (use.kind == BarrierUse::Kind::copies && use.role == role) return true;
    return false;
  }

  std::string short_name(const Operation& o) const {
    std::string name;
    for (std::string_view word : o.words)
      if (word != "sync" && word != "aligned") name += fmt::format("{}{}", name.empty() ? "" : ".", word);
    return name;
  }

  // Describes an instruction without the address, which advances from one instruction of the step to the
  // next.
  std::string step(int i) {
    const Operation& o = operation(i);
    if (is_tensor_core(o) && o.is("wgmma")) {
      std::string text = fmt::format("wgmma {}", o.text->opcode.substr(o.text->opcode.find(".m64") + 1));
      for (size_t n = 1; n < 3; ++n) {
        const char* name = n == 1 ? "A" : "B";
        if (o.operands.size() > n && o.operands[n].kind == Value::Kind::vector) {
          text += fmt::format(", {} in registers", name);
          continue;
        }
        const auto d = decode_descriptor(values_, operand(i, n));
        text += d ? fmt::format(", {} {} stride {} leading {}", name, layout_name(*d), d->stride_bytes,
                                d->leading_bytes)
                  : fmt::format(", {} by an unknown descriptor", name);
      }
      return text;
    }
    return short_name(o);
  }

  // Returns the positions of a step's operands. If the step has several instructions, returns the positions
  // in the first instruction and the distances to the positions in the last instruction.
  std::string places(int i, int last) {
    const Operation& o = operation(i);
    std::string text;
    if (o.is_wgmma()) {
      for (size_t n = 1; n < 3; ++n) {
        if (o.operands[n].kind == Value::Kind::vector) continue;
        const auto first = decode_descriptor(values_, operand(i, n)),
                   end = decode_descriptor(values_, operand(last, n));
        if (!first) continue;
        text += fmt::format("; {} at [{}]", n == 1 ? "A" : "B", values_.text(first->address, 2));
        if (last != i && end && end->address.terms == first->address.terms)
          text += fmt::format(" to +{} B", end->address.constant - first->address.constant);
      }
      return text;
    }
    for (size_t n = o.results; n < o.operands.size(); ++n) {
      const Value& v = o.operands[n];
      if (v.kind == Value::Kind::sink) continue;
      if (v.kind != Value::Kind::address) {
        text += fmt::format(" {}", values_.text(values_.of(i, v), 1));
        continue;
      }
      const Sum first = operand(i, n), end = operand(last, n);
      text += fmt::format(" [{}{}]", values_.text(first, 1),
                          end == first               ? ""
                          : end.terms == first.terms ? fmt::format(" to +{} B", end.constant - first.constant)
                                                     : " and others");
    }
    return text;
  }

  // Returns whether an instruction belongs to the same step as an earlier instruction with the same
  // description. Products, and cp.async into one tile, can share a step.
  bool continues(int first, int i) {
    const Operation& o = operation(i);
    if (is_tensor_core(o)) return true;
    return o.is("cp") && !o.has("bulk") && o.operands.size() > 1 &&
           operand(first, 0).terms == operand(i, 0).terms;
  }

  // Lists unknown instructions, because their reads and writes are only assumed, and setmaxnreg in unknown
  // warps.
  void find_unknown_instructions() {
    std::map<std::string, std::pair<int, uint32_t>> met;  // number of occurrences, and the first line
    for (int block : graph_.order)
      for (int i = graph_.blocks[at(block)].first; i < graph_.blocks[at(block)].last; ++i) {
        const Operation& o = operation(i);
        if (!o.is_known() && ++met[o.text->opcode].first == 1) met[o.text->opcode].second = o.at.line;
        const bool reached = std::any_of(p_.roles.begin(), p_.roles.end(), [&](const Role& role) {
          return p_.roles.size() == 1 || std::binary_search(role.blocks.begin(), role.blocks.end(), block);
        });
        for (size_t n = 1; o.is_wgmma() && n < 3; ++n)
          if (o.operands[n].kind != Value::Kind::vector && !decode_descriptor(values_, operand(i, n)))
            p_.unknowns.push_back(fmt::format("the descriptor of {} in wgmma at {}: {}", n == 1 ? "A" : "B",
                                              line_of(i), values_.text(operand(i, n), 2)));
        if (o.is("setmaxnreg") && !reached)
          p_.unknowns.push_back(fmt::format("which warps execute {} {} at {}", o.text->opcode,
                                            values_.text(operand(i, 0)), line_of(i)));
      }
    for (const auto& [opcode, where] : met)
      p_.unknowns.push_back(fmt::format("the effect of {} at line {}{}", opcode, where.second,
                                        where.first > 1 ? fmt::format(" and {} more", where.first - 1) : ""));
  }

  void find_loops() {
    for (int l = 0; at(l) < graph_.loops.size(); ++l) {
      const Loop& loop = graph_.loops[at(l)];
      // Finds loops whose inner loops only wait.
      std::vector<int> events;
      bool works = false, inner_works = false;
      for (int block : graph_.in_order(loop)) {
        for (int i = graph_.blocks[at(block)].first; i < graph_.blocks[at(block)].last; ++i) {
          const Operation& o = operation(i);
          const bool work = is_tensor_core(o) || o.is_bulk_load();
          (graph_.blocks[at(block)].loop == l ? works : inner_works) |= work;
          if (o.is("mbarrier", "cp", "wgmma", "fence", "bar", "barrier") || work) events.push_back(i);
        }
      }
      if (!works || inner_works) continue;
      Mainloop m{.loop = l, .role = role_of(loop.header)};
      std::vector<int> firsts, lasts;
      for (int i : events) {
        const std::string text = step(i);
        if (!m.steps.empty() && m.steps.back().text == text && continues(firsts.back(), i)) {
          ++m.steps.back().times;
          lasts.back() = i;
        } else {
          m.steps.push_back({.text = text, .first = i});
          firsts.push_back(i), lasts.push_back(i);
        }
        m.first_line = m.first_line ? std::min(m.first_line, operation(i).at.line) : operation(i).at.line;
        m.last_line = std::max(m.last_line, operation(i).at.line);
      }
      for (size_t s = 0; s < m.steps.size(); ++s) m.steps[s].text += places(firsts[s], lasts[s]);
      p_.loops.push_back(std::move(m));
    }
    std::vector<bool> is_told(graph_.loops.size(), false);
    for (const Mainloop& m : p_.loops) is_told[at(m.loop)] = true;
    for (int i = 0; at(i) < code_.operations.size(); ++i) {
      if (!is_tensor_core(operation(i))) continue;
      int loop = graph_.blocks[at(graph_.block_of[at(i)])].loop;
      while (loop != kNone && !is_told[at(loop)]) loop = graph_.loops[at(loop)].parent;
      if (loop == kNone) p_.products_outside.push_back(i);
    }
  }

  const Code& code_;
  const Graph& graph_;
  Values& values_;
  Portrait p_;
};

}  // namespace

std::string_view name(BarrierUse::Kind kind) {
  constexpr std::string_view names[] = {"arrives", "expects", "copies", "waits"};
  return names[static_cast<size_t>(kind)];
}

Portrait portrait(const Code& code, const Graph& graph, Values& values) {
  return Painter(code, graph, values).run();
}

KernelAnalysis::KernelAnalysis(std::shared_ptr<const ptx_text::Module> of, std::string_view kernel)
    : KernelAnalysis(std::move(of), kernel, Variables::by_use) {}

KernelAnalysis::KernelAnalysis(std::shared_ptr<const ptx_text::Module> of, std::string_view kernel,
                               Variables variables)
    : module(std::move(of)),
      code(Code::of(*module, kernel)),
      graph(Graph::of(code)),
      numbering(std::make_shared<Numbering>(Numbering{.by_name = variables == Variables::by_name})),
      values(code, graph, *numbering),
      portrait(analysis::portrait(code, graph, values)) {}

KernelAnalysis::KernelAnalysis(const KernelAnalysis& kernel, const ptx_text::Function& function)
    : module(kernel.module),
      code(Code::of(*module, function)),
      graph(Graph::of(code)),
      numbering(kernel.numbering),
      values(code, graph, *numbering),
      portrait(analysis::portrait(code, graph, values)) {}

bool have_same_variables(const ptx_text::Module& a, const ptx_text::Module& b) {
  const auto names = [](const ptx_text::Module& module) {
    std::set<std::string_view> all;
    for (const ptx_text::Statement& s : module.statements)
      if (s.kind == ptx_text::Statement::Kind::declaration &&
          (s.declaration.has(".global") || s.declaration.has(".const")))
        for (const ptx_text::Declarator& name : s.declaration.names) all.insert(name.name);
    return all;
  };
  return names(a) == names(b);
}

KernelAnalysis::KernelAnalysis(std::string_view ptx, std::string_view kernel)
    : KernelAnalysis(std::make_shared<const ptx_text::Module>(ptx_text::parse(ptx)), kernel) {}

std::string text(const KernelAnalysis& kernel) {
  const Portrait& p = kernel.portrait;
  const Code& code = kernel.code;
  const Values& values = kernel.values;
  std::string page = p.kernel + (p.threads ? fmt::format(": {} threads\n", p.threads) : "\n");
  auto role_name = [&](int role) {
    return role == kNone ? std::string("several roles") : p.roles[at(role)].name;
  };
  page += "\nroles\n";
  for (const Role& role : p.roles) {
    page += fmt::format("  {:12} warps {}", role.name, ranges(role.warps));
    if (role.registers) page += fmt::format(", {} registers a thread", *role.registers);
    page += "\n";
  }
  if (!p.barriers.empty()) page += "\nbarriers\n";
  for (const BarrierArray& array : p.barriers) {
    page += fmt::format("  [{}] {} of {} arrivals, {}\n", values.text(array.base), array.count,
                        array.arrivals ? std::to_string(*array.arrivals) : "unknown", array.name);
    for (const BarrierUse& use : array.uses) {
      page += fmt::format(
          "    {:12} {}{}{} (line {})\n", role_name(use.role), name(use.kind),
          use.kind == BarrierUse::Kind::expects ? fmt::format(" {} B", values.text(use.amount, 1)) : "",
          use.remote ? " in the cluster" : "", code.operations[at(use.operation)].at.line);
    }
  }
  for (const Mainloop& loop : p.loops) {
    page += fmt::format("\nloop of {}, lines {}-{}\n", role_name(loop.role), loop.first_line, loop.last_line);
    for (const Step& step : loop.steps)
      page += step.times > 1 ? fmt::format("  {} x {}\n", step.times, step.text)
                             : fmt::format("  {}\n", step.text);
  }
  if (const auto& products = p.products_outside; !products.empty())
    page += fmt::format("\noutside of {}loops: {} matrix instructions, lines {}-{}\n",
                        p.loops.empty() ? "" : "these ", products.size(),
                        code.operations[at(products.front())].at.line,
                        code.operations[at(products.back())].at.line);
  if (!p.unknowns.empty()) page += "\nunknown\n";
  for (const std::string& what : p.unknowns) page += fmt::format("  {}\n", what);
  return page;
}

}  // namespace ptxbuilder::analysis
